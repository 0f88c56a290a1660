/* The sandboxes: their table and the one state that each is in. */
#ifndef MANAGERD_BOX_H
#define MANAGERD_BOX_H

#include <bsd/sys/queue.h>
#include <stdint.h>

#include "managerd/engine.h"
#include "managerd/idem.h"
#include "managerd/spec.h"
#include "managerd/tenant.h"
#include "proto/managerd_dockerd.h"

struct job;
struct renewal;
struct session;

enum box_state { BOX_CREATING, BOX_RUNNING, BOX_STOPPED, BOX_ROLLING_BACK, BOX_DESTROYING };
#define BOX_STATES 5

TAILQ_HEAD(job_list, job);

struct box {
	/* what is on disk */
	uint64_t id;
	enum box_state state;
	uint32_t generation; /* of the container and volume that count */
	uint32_t
	    top; /* highest generation ever begun; a failed rollback's number is not used again */
	char container[72]; /* "": not known yet */
	uint64_t pool;      /* the member of the pool that it was: its volume's name; or 0 */
	struct spec spec;
	int64_t created_us;
	int64_t expires_us;
	int64_t deadline_us;   /* CLOCK_BOOTTIME: what counts, for as long as the machine is up */
	char boot[40];         /* of which boot */
	uint64_t source;       /* snapshot, or 0 */
	struct tenant *tenant; /* whose it is */
	struct idem idem;
	int renewing; /* its container is being replaced (renew.h) */

	/* only in memory */
	TAILQ_ENTRY(box) order; /* oldest first, when listed */
	TAILQ_ENTRY(box) own;   /* of its tenant, likewise */
	LIST_ENTRY(box) bucket;
	int listed;      /* clients may see it: it was ready once */
	int run;         /* for one run: never listed, never on disk */
	uint32_t runner; /* the serial of the key that it is for */
	uint8_t runner_addr[16];
	struct session *session;
	int starting; /* session.c is getting it a session */
	int inspecting;
	uint64_t claims; /* a member of the pool that it has, or is about to, but not by name */
	int64_t name_us; /* CLOCK_BOOTTIME: a run that goes on so long is given its name */
	int look_later;  /* at the container, when it has its name */
	struct renewal *renewal; /* under way */
	int renewed;             /* by this run of the program */
	int failures;            /* sessions lost in a row, none of them up for long */
	int64_t retry_us;        /* CLOCK_BOOTTIME: not attached again in the background before */
	int disk_low;            /* below the floor */
	int64_t disk_free;
	int64_t disk_log_us;     /* CLOCK_BOOTTIME: no line about it before */
	unsigned denials;        /* connections in this second that were not let out */
	unsigned undenied;       /* those of them without a line in the audit log */
	uint64_t snapped;        /* job that S_SNAPPED has ended; its S_JOB_END may follow */
	struct job_list waiting; /* for the session */
	size_t nwaiting;
	struct job_list running;   /* handed to the session */
	struct job *snapshot;      /* the one that is being made */
	struct leftover *leftover; /* of its last rollback, at the engine still; rollback.c */
	void *op;                  /* struct create or struct rollback, by state */
	uint32_t end_reason;       /* BOX_DESTROYING: enum session_end */
};

extern struct box_list boxes; /* listed ones, oldest first */
extern char box_boot[40];     /* this boot's id; "": not known */

/* A new box with this id (0: a fresh one), in no list yet but found by box_find(). Fatal when out
 * of memory. */
struct box *box_new(uint64_t id);
void box_free(struct box *);
struct box *box_find(uint64_t id);
/* Puts it where its created_us belongs. */
void box_list(struct box *);
/* For many at once: as they come, then box_sort(). */
void box_list_loaded(struct box *);
void box_sort(void);
/* Whether clients are told of it: it was ready once, and has not ended by itself. One that was
 * deleted is shown until it is gone. */
int box_shown(const struct box *);
/* What the quota counts: all but failed ones whose rest is being removed. */
size_t box_count(void);
/* Those that nobody can use any more while their rest is being removed. */
size_t box_count_leaving(void);
/* One that is for a run, and ready. */
int box_serves_run(const struct box *);
/* Calls fn for each, which may free that one. */
void box_each(void (*fn)(struct box *, void *), void *arg);
/* What the engine has of its current generation. */
struct wreckage box_wreckage(const struct box *);
/* Writes its record, if it is one that has any; -1 with errno, and then the old one is still there.
 */
int box_save(const struct box *);
const char *box_state_name(enum box_state);
/* Sets expires_us and deadline_us from now on. */
void box_set_ttl(struct box *, int64_t ttl_s);

#endif
