/* One sandbox's session: what is known of it, its guest stream and its jobs. */
#ifndef SESSIOND_SESSION_H
#define SESSIOND_SESSION_H

#include <sys/queue.h>

#include <stdint.h>

#include "proto/guest.h"
#include "proto/managerd_sessiond.h"
#include "sessiond/guest.h"

struct dial;
struct event_base;
struct job;

enum session_state {
	SESSION_NEW,       /* managerd has not sent the guest stream yet */
	SESSION_ATTACHING, /* HELLO was sent */
	SESSION_UP,
	SESSION_DOWN,   /* nothing can be done here any more; managerd will close */
	SESSION_ENDING, /* every job was told why; only their last bytes keep it */
};

#define SESSION_JOBS_MAX 256    /* those that wait, run or still have bytes for their peer */
#define SESSION_REFUSED_MAX 128 /* beside them, those that were told that there are too many */

struct session {
	struct event_base *base;
	struct chan *manager;
	enum session_state state;
	char name[48];     /* "sandbox sb_…", for texts */
	uint8_t unclaimed; /* a member of the pool: nobody's yet */
	char *env;         /* the sandbox's own, "NAME=value\0…" */
	uint32_t env_len;
	uint32_t env_total;
	struct m_s_down down; /* what managerd is told when it goes down */

	struct guest guest;
	struct job *channels[GUEST_CHANNELS + 1]; /* [0] is never used */
	TAILQ_HEAD(job_list, job) jobs;
	TAILQ_HEAD(job_batch, job) dirty; /* those with records to send at the end of the batch */
	unsigned njobs;
	unsigned nexecs; /* with a channel */

	uint8_t egress;     /* it has a way out */
	unsigned announced; /* EGRESS was sent so often and not yet answered */
	char *egress_list;
	uint32_t egress_len;
	struct dial *dials[GUEST_DIALS]; /* of channel GUEST_CHANNELS + 1 + index */
	unsigned ndials;
	uint32_t dials_more; /* bytes by which their windows have grown */
	uint64_t last_dial;  /* their ids */

	unsigned freezers; /* exports that hold the sandbox still */
	int64_t frozen_since_us;
	int64_t frozen_us; /* of those that are over */
	int64_t disk_said_us;
};

void session_init(struct session *, struct event_base *);
/* The guest answered: tells managerd and begins what waits. */
void session_up(struct session *, uint32_t guest_version);
/* Ends it: managerd is told why, every job fails with 502. Not to be called while a frame is
 * handled. */
void session_down(struct session *, const char *why);
/* Every job is told why; then the process exits, after a second at most. */
void session_end(struct session *, uint32_t reason);
/* There is room again on the way to the guest. */
void session_room(struct session *);
/* Sends what the frames of one batch have left in the jobs' queues. */
void session_batch_end(struct session *);

void session_freeze(struct session *, int on);
/* Microseconds for which commands had their clock running, up to now. */
int64_t session_clock_us(const struct session *);
void session_disk(struct session *, const struct g_stat *);

/* managerd's messages (manager.c) */
void manager_message(struct chan *, struct msg *);
void manager_gone(struct chan *);

#endif
