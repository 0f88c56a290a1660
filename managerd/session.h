/*
 * Sessions: one sessiond for one container. The parent starts it, the engine's stream is handed to
 * it, it says that the guest is there; then it takes jobs. A session that was ended is forgotten by
 * its owner at once and reaped here.
 */
#ifndef MANAGERD_SESSION_H
#define MANAGERD_SESSION_H

#include <stdint.h>

#include "managerd/box.h"
#include "proto/managerd_sessiond.h"

struct session;

/* What its owner hears; up or lost may end and replace the session. text is fit for clients. */
struct session_owner {
	void (*up)(void *arg);
	void (*lost)(void *arg, const char *text); /* the session is gone; before or after up */
	void (*restored)(void *arg, uint32_t status, const char *text);
};

struct session {
	LIST_ENTRY(session) entry;
	uint64_t id;
	uint64_t sandbox;
	uint32_t generation;
	struct box *box;                   /* NULL: of a member of the pool, or ended */
	const struct session_owner *owner; /* NULL: ended, waits to be reaped */
	void *arg;
	struct chan *chan; /* NULL: not there yet, or gone */
	int guest;         /* the engine's stream, until chan is there; -1 */
	int guest_sent;
	int up;
	int restoring;
	int outdated;         /* not up: the guest speaks another version */
	int killed;           /* because managerd wanted it */
	struct job_list late; /* ended, and not said how: managerd/jobs.h */
	unsigned dials;       /* of its sandbox, not over yet (dial.c) */
	int64_t up_us;        /* CLOCK_BOOTTIME */
	int64_t deadline_us;  /* for being up, or for being reaped; 0: none */
};

/* Asks the parent for a sessiond for this box (NULL: for a member of the pool). Never fails; lost()
 * may come. */
struct session *
session_new(struct box *, uint32_t generation, const struct session_owner *, void *arg);
/* The stream of the attached container. Takes the fd. */
void session_guest(struct session *, int fd);
/* One of the pool, which is up, becomes this box's: it gets what only a box has. */
void session_claim(struct session *, struct box *, uint32_t generation);
/* Every process of the guest, at once. */
void session_kill_all(struct session *);
void session_restore(struct session *, int fd, int64_t size, const uint8_t sha256[32]);
/* Its owner hears no more of it. reason: enum session_end, which its jobs are answered with. */
void session_end(struct session *, uint32_t reason);
void session_adopt(struct session *, const struct session_owner *, void *arg);
/* Whether an ended session of this generation was not reaped yet: no new attach before. */
int session_lingers(uint64_t sandbox, uint32_t generation);

/* dial.c: to the session with this id, if it is still there. */
void
session_dialed(uint64_t id, uint64_t asked, uint32_t verdict, const char *text, size_t text_len);
void session_dial_over(uint64_t id);

/* Those that the parent has not buried yet. */
size_t session_count(void);
void sessions_told(void); /* what they have under way is in the audit log; managerd ends */
void session_start(void); /* its timer */
void session_message(struct chan *, struct msg *);
void session_arrived(uint64_t id, int fd);
void session_over(uint64_t id, int status);

#endif
