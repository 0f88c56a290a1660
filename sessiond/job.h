/*
 * One thing that is asked of the sandbox: a command, a transfer, a snapshot. A job has two sides,
 * the guest's channel and the peer (a data socket or a snapshot file), and is over when both are.
 */
#ifndef SESSIOND_JOB_H
#define SESSIOND_JOB_H

#include <sys/queue.h>

#include <stdint.h>

#include "proto/data.h"
#include "proto/guest.h"
#include "proto/job.h"
#include "sessiond/data.h"
#include "sessiond/session.h"

/* A bit each, for the rules of channel.c. */
enum job_kind {
	JOB_EXEC = 1,
	JOB_READ = 2,
	JOB_WRITE = 4,
	JOB_LIST = 8,
	JOB_ARCHIVE_GET = 16,
	JOB_ARCHIVE_PUT = 32,
	JOB_SNAPSHOT = 64,
	JOB_RESTORE = 128,
	JOB_REMOVE = 256,
};

#define JOB_TAKES (JOB_EXEC | JOB_WRITE | JOB_ARCHIVE_PUT | JOB_RESTORE) /* bytes go in */
#define JOB_FILES (JOB_SNAPSHOT | JOB_RESTORE)                           /* the peer is a file */

enum job_phase {
	JOB_ARGS,    /* the ARGS record is awaited */
	JOB_WAITING, /* for the guest, or for room on the way to it */
	JOB_OPEN,    /* has a channel */
	JOB_LAST, /* over inside, and told to managerd; the last bytes are on their way to the peer
		   */
};

/* The client went before it could be told anything; only managerd's log sees it. */
#define STATUS_CLIENT_GONE 499

struct pack;

struct job {
	TAILQ_ENTRY(job) entry;
	TAILQ_ENTRY(job) dirty_entry;
	struct session *s;
	uint64_t id;
	uint16_t kind;
	uint8_t phase;
	uint8_t channel; /* 0: none */
	uint8_t dirty;

	uint8_t started;       /* the guest said so */
	uint8_t meta;          /* META came */
	uint8_t sent_end;      /* we have no more bytes for the guest, and said so */
	uint8_t closing;       /* CLOSE or KILL was sent */
	uint32_t guest_credit; /* bytes that the guest may still send */
	uint32_t our_credit;   /* bytes that we may still send */
	uint32_t owed;         /* credit that we can give back to the guest */

	uint32_t status; /* how it ended; 0: undecided */
	int32_t exit_code;
	char *text;
	int64_t bytes_in;
	int64_t bytes_out;

	struct data data;
	struct event timer;
	int64_t began_us;
	int64_t heard_us; /* when the guest last said something about it; of the sandbox's clock, */
	int64_t deadline_us; /* which stands still while it is frozen, but for a snapshot itself */

	struct m_job_exec exec;
	struct buf args; /* EXEC: the guest's argument block */
	struct m_job_file file;
	char *path;
	struct r_meta about; /* META as it came */
	struct pack *pack;   /* SNAPSHOT, RESTORE */
};

/*
 * A new job; takes fd (-1: the peer is a file). NULL when it was refused at once: too many, or not
 * a data socket; fd is then closed and managerd told.
 */
struct job *job_new(struct session *, uint64_t id, enum job_kind, int fd);
/* Everything for it is here: it begins as soon as the guest can take it. */
void job_ready(struct job *);
/* Begins it if it can. */
void job_begin(struct job *);

/* The first decision counts. text may be NULL. */
void job_decide(struct job *, uint32_t status, const char *text);
/*
 * Tells the peer an error, decides, and ends it: asks the guest to stop if it has a channel, else
 * it is over. The job may be gone afterwards.
 */
void
job_fail(struct job *, uint32_t status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* The guest said something about it, or its turn has just begun. */
void job_heard(struct job *);
/* Asks the guest for an early end; its final frame is still to come. */
void job_close(struct job *);
/* Nothing of it is left inside: tells managerd and lets the peer have its last bytes. The job may
 * be gone. */
void job_over(struct job *);
void job_free(struct job *);
/* The session is down, or will be: as job_fail() without the guest. */
void job_lost(struct job *, uint32_t status, const char *text);

/* A record for the peer; it leaves at the end of the batch. credited as data_put(). */
void job_put(struct job *, uint8_t type, const void *fixed, size_t fixed_len, const void *p,
    size_t n, int credited);
/* Gives back credit that is worth a frame. */
void job_give(struct job *);
/* Sends what is queued for the peer, and gives back the credit of it. The job may be gone. */
void job_flush(struct job *);
/* Takes from the peer what the guest can take now. */
void job_pump(struct job *);
/* Hands on what the guest's credit allows of a record of the peer. */
void job_forward(struct job *, uint8_t type, const struct data_record *);
void job_release_channel(struct job *);

/* What only one kind does. */
void exec_read_args(struct job *);
void exec_open(struct job *);
void exec_pump(struct job *);
const char *exec_started(struct job *, const struct frame *);
const char *exec_output(struct job *, const struct frame *);
const char *exec_exit(struct job *, const struct frame *);

void file_open(struct job *);
void file_pump(struct job *);
const char *file_started(struct job *, const struct frame *);
const char *file_meta(struct job *, const struct frame *);
const char *file_data(struct job *, const struct frame *);
const char *file_entry(struct job *, const struct frame *);
/* END 200 of every kind but EXEC; the channel is closed already. */
const char *file_end(struct job *, const struct g_end *);
/* The request frame of a file verb. */
void file_request(struct job *, uint8_t type, const struct g_file *, const char *path);

/* fd is the file; NULL: managerd's message was wrong. */
struct pack *pack_new(int fd, const struct m_s_snapshot *, const struct m_s_restore *);
void pack_free(struct pack *);
void pack_open(struct job *);
void pack_pump(struct job *);
const char *pack_data(struct job *, const struct frame *);
const char *pack_end(struct job *, const struct g_end *);

#endif
