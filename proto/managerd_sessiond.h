/*
 * managerd <-> sessiond: one sandbox's session. managerd sends the environment, then the guest
 * stream; sessiond says S_UP; then jobs, each with a descriptor for its bytes, each ended by one
 * S_JOB_END with its id. S_END ends it all. Connections out of the sandbox come the other way: each
 * S_DIAL, with an id of sessiond's, is answered by exactly one S_DIALED.
 */
#ifndef PROTO_MANAGERD_SESSIOND_H
#define PROTO_MANAGERD_SESSIOND_H

#include "common/chan.h"
#include "proto/dial.h"
#include "proto/job.h"

#define S_ENV_CHUNK 32768

struct m_s_none {
	uint64_t pad;
};

/* Before S_GUEST, or between S_UP and S_CLAIM: the environment of the sandbox as "NAME=value\0…",
 * in pieces; total is the same in each. */
struct m_s_env {
	uint32_t total;
	uint32_t pad;
};

enum guest_framing { GUEST_RAW, GUEST_STDCOPY };

struct m_s_guest {
	uint32_t framing; /* enum guest_framing: STDCOPY when the engine multiplexes */
	uint32_t pad;
	uint64_t sandbox; /* for texts and the log; 0: a member of the pool */
};

/* Once, after S_UP of a member of the pool: whose session it is from now on. */
struct m_s_claim {
	uint64_t sandbox;
};

struct m_s_up {
	uint32_t guest_version;
	uint32_t pad;
};

enum session_down {
	DOWN_LOST,    /* the stream ended, or what came out of it was no guest's */
	DOWN_VERSION, /* the guest speaks another version than ours: the server was upgraded */
};

struct m_s_down {
	uint32_t why;           /* enum session_down */
	uint32_t guest_version; /* DOWN_VERSION */
};

enum session_end {
	END_DELETED,     /* jobs end with 409 "sandbox sb_… was deleted" */
	END_EXPIRED,     /* 409 "… expired" */
	END_ROLLED_BACK, /* 409 "… was rolled back" */
	END_BACKEND,     /* 502: the engine lost it */
	END_SHUTDOWN,    /* 503: the server is going down */
};

struct m_s_end {
	uint32_t reason; /* enum session_end */
	uint32_t pad;
};

/* fd: an empty file, open for writing, in which the zstd stream goes */
struct m_s_snapshot {
	int64_t max_bytes;   /* of tar */
	int64_t max_stored;  /* of the file: what is left of the tenant's quota; 0: any */
	char request_id[72]; /* for the log */
};

/* fd: the file, open for reading */
struct m_s_restore {
	int64_t size_bytes; /* of the tar, as recorded */
	uint8_t sha256[32]; /* of the tar; a mismatch fails the restore */
};

struct m_s_snapped {
	int64_t size_bytes;
	int64_t stored_bytes;
	uint8_t sha256[32];
};

struct m_s_disk {
	int64_t free_bytes; /* of the file system that holds /workspace, for the sandbox user */
	int64_t free_inodes;
};

/* The sandbox has a way out; tail: the list of it (proto/dial.h), or "*". Before S_GUEST or later;
 * the last one counts. */
struct m_s_egress {
	uint8_t on;
	uint8_t pad[7];
};

/* tail: the name or address as it was said inside, any bytes; fd: the connection's socket */
struct m_s_dial {
	uint16_t port; /* not 0 */
	uint8_t how;   /* enum dial_how */
	uint8_t pad[5];
};

/* Ends a job (the id is its own) as if its client had left, which is told so: tail */
struct m_s_stop {
	uint32_t status; /* an HTTP status of API.md's table */
	uint32_t pad;
};

/* tail: the reason, fit for the client inside */
struct m_s_dialed {
	uint32_t verdict; /* enum dial_verdict */
	uint32_t pad;
};

/*     from       message          payload              tail            fd */
#define MANAGERD_SESSIOND(X)                                                  \
	X(MANAGERD, S_ENV, struct m_s_env, S_ENV_CHUNK, FD_NONE)              \
	X(MANAGERD, S_GUEST, struct m_s_guest, 0, FD_MUST)                    \
	X(MANAGERD, S_EXEC, struct m_job_exec, 0, FD_MUST)                    \
	X(MANAGERD, S_READ, struct m_job_file, PATH_TAIL_MAX, FD_MUST)        \
	X(MANAGERD, S_WRITE, struct m_job_file, PATH_TAIL_MAX, FD_MUST)       \
	X(MANAGERD, S_LIST, struct m_job_file, PATH_TAIL_MAX, FD_MUST)        \
	X(MANAGERD, S_ARCHIVE_GET, struct m_job_file, PATH_TAIL_MAX, FD_MUST) \
	X(MANAGERD, S_ARCHIVE_PUT, struct m_job_file, PATH_TAIL_MAX, FD_MUST) \
	X(MANAGERD, S_SNAPSHOT, struct m_s_snapshot, 0, FD_MUST)              \
	X(MANAGERD, S_RESTORE, struct m_s_restore, 0, FD_MUST)                \
	X(MANAGERD, S_KILL_ALL, struct m_s_none, 0, FD_NONE)                  \
	X(MANAGERD, S_END, struct m_s_end, 0, FD_NONE)                        \
	X(SESSIOND, S_UP, struct m_s_up, 0, FD_NONE)                          \
	X(SESSIOND, S_DOWN, struct m_s_down, TEXT_MAX, FD_NONE)               \
	X(SESSIOND, S_SNAPPED, struct m_s_snapped, 0, FD_NONE)                \
	X(SESSIOND, S_DISK, struct m_s_disk, 0, FD_NONE)                      \
	X(SESSIOND, S_JOB_END, struct m_job_end, TEXT_MAX, FD_NONE)           \
	X(MANAGERD, S_CLAIM, struct m_s_claim, 0, FD_NONE)                    \
	X(MANAGERD, S_EGRESS, struct m_s_egress, EGRESS_TEXT_MAX, FD_NONE)    \
	X(SESSIOND, S_DIAL, struct m_s_dial, DIAL_NAME_MAX, FD_MUST)          \
	X(MANAGERD, S_DIALED, struct m_s_dialed, DIAL_TEXT_MAX, FD_NONE)      \
	X(MANAGERD, S_REMOVE, struct m_job_file, PATH_TAIL_MAX, FD_MUST)      \
	X(MANAGERD, S_STOP, struct m_s_stop, TEXT_MAX, FD_NONE)

enum { MANAGERD_SESSIOND_BASE = 0x0400 - 1, MANAGERD_SESSIOND(CHAN_X_ENUM) };
MANAGERD_SESSIOND(CHAN_X_ASSERT)
MANAGERD_SESSIOND(CHAN_X_SEND)
static const struct msg_spec managerd_sessiond_specs[] = {MANAGERD_SESSIOND(CHAN_X_SPEC)};
static const struct chan_proto managerd_sessiond_proto
    __attribute__((unused)) = {"managerd-sessiond", managerd_sessiond_specs,
	sizeof(managerd_sessiond_specs) / sizeof(managerd_sessiond_specs[0])};

#endif
