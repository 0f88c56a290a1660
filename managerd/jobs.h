/* Jobs: what is done inside a sandbox by its session. They wait here while a stopped sandbox is
 * started. */
#ifndef MANAGERD_JOBS_H
#define MANAGERD_JOBS_H

#include "managerd/box.h"
#include "managerd/request.h"
#include "managerd/snap.h"
#include "proto/managerd_sessiond.h"

struct job {
	TAILQ_ENTRY(job) entry;
	uint64_t id;
	uint32_t type; /* MSG_S_EXEC … */
	int writes;    /* needs free space */
	int revoked;   /* its session was told to end it */
	struct request rq;
	union {
		struct m_job_exec exec;
		struct m_job_file file;
	} m;
	char *tail;
	size_t tail_len;
	int fd;            /* the data socket, until it is handed on; -1 */
	struct snap *snap; /* MSG_S_SNAPSHOT */
	int64_t line_us;   /* CLOCK_BOOTTIME: waits for its tenant's quota since; 0: does not */
	int64_t began_us;
	uint32_t status; /* for the audit log, when its session says nothing of its end */
};

/* From apid: m->payload is a struct m_exec or m_file of an authorised request. */
void job_exec(struct request *, struct msg *);
void job_file(struct request *, struct msg *);
void job_snapshot(struct request *, struct msg *);

/* A sandbox that may be changed or used; else the request is answered, and NULL. */
struct box *request_box(struct request *, uint64_t id);

void jobs_flush(struct box *); /* the session is up */
void jobs_fail_waiting(struct box *, uint32_t status, const char *text);
/* Those that the session had: it has answered the clients, or its death has. What an ended one
 * (else NULL) still says of them is awaited. */
void jobs_fail_running(struct box *, struct session *ended, uint32_t status);
void job_late(struct session *, uint64_t id, const struct m_job_end *);
void jobs_late_over(struct session *); /* nothing more comes */
/* Writes down those of the list: managerd ends. */
void jobs_told(const struct job_list *);
/* A session's word as a status that there is. */
uint32_t job_status(const struct m_job_end *);
/* Ends those of the sandbox whose key may not do that any more. */
void jobs_revoke(struct box *, int64_t now_s);
/* From the session; -1: there is no such job. */
int job_end(struct box *, uint64_t id, const struct m_job_end *, const char *text);
int job_snapped(struct box *, uint64_t id, const struct m_s_snapped *);
void job_disk(struct box *, int64_t free_bytes);

/* snapshot.c: the snapshot job's own parts. */
int snapshot_send(struct box *, struct job *); /* -1: answered and over */
void snapshot_finish(struct box *, struct job *, const struct m_s_snapped *);
void snapshot_abandon(struct box *, struct job *);
/* Whether this one of the sandbox has to wait for another. */
int snapshot_waits(const struct box *, const struct job *);
/* Whether one of this running sandbox is being made, or is the next. */
int snapshot_pending(const struct box *);
size_t snapshots_waiting(const struct tenant *);
/* Once a second: those that have waited for their tenant's quota for too long are refused. */
void snapshots_look(void);
/* jobs.c, for snapshot.c */
int session_ready(const struct box *); /* takes jobs */
void job_free(struct job *);

#endif
