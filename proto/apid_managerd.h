/*
 * apid <-> managerd: everything that the HTTP side may ask, and what it is answered. Every request
 * carries who asks; managerd decides that first. Each request gets exactly one final answer with
 * its id: REPLY, SANDBOX, SNAPSHOT, PAGE_END or HEALTH. Pages: items, then PAGE_END; apid asks for
 * the next page when it has sent the last. METRICS: METRIC*, then REPLY 200.
 */
#ifndef PROTO_APID_MANAGERD_H
#define PROTO_APID_MANAGERD_H

#include "common/chan.h"
#include "proto/dial.h"
#include "proto/job.h"
#include "proto/metrics.h"

#define IMAGE_MAX 512
#define LABELS_MAX 64
#define LABEL_NAME_MAX 63
#define LABEL_VALUE_MAX 255
#define ENV_MAX 256
#define ENV_BYTES_MAX (64 * 1024)
#define SNAPSHOT_NAME_MAX (128 * 4) /* bytes of 128 characters */
#define PAGE_MAX 64
#define SANDBOX_TAIL_MAX \
	(IMAGE_MAX + 1 + LABELS_MAX * (LABEL_NAME_MAX + LABEL_VALUE_MAX + 2) + EGRESS_TEXT_MAX)

/* Who asks. First member of every request. */
struct m_ask {
	uint8_t key[32]; /* SHA-256 of the key that the client presented */
	uint8_t has_key; /* 0: none, or a malformed one */
	uint8_t detail;  /* ?detail=true */
	uint8_t again;   /* of a client's request that was counted by a message before */
	uint8_t pad[5];
	char peer[56];       /* address and port as text */
	char request_id[72]; /* at most 64 characters */
	uint8_t addr[16];    /* the client's, IPv4 as ::ffff:a.b.c.d; all zeros: not known */
	char subject[64];    /* common name of the certificate that it has shown; "": none */
};

struct m_auth {
	struct m_ask ask;
	uint8_t scope; /* of the route, enum keys_scope; 0: none */
	uint8_t
	    changes; /* the request is more than a read: refused when that cannot be written down */
	uint8_t pad[6];
};

/* tri-state */
#define NOT_GIVEN 2

/* tail: the image, or nothing. fd: a data socket with RECORD_ENV*, RECORD_LABEL*, RECORD_EGRESS*,
 * RECORD_DONE, all written before */
struct m_create {
	struct m_ask ask;
	int64_t nano_cpus;  /* 0: not given */
	int64_t memory_mb;  /* 0: not given */
	int64_t pids_limit; /* 0: not given */
	int64_t ttl_s;      /* 0: not given */
	uint64_t
	    snapshot;    /* FORK: of this snapshot; CREATE: its tree and all else as given, or 0 */
	uint8_t network; /* 0, 1, NOT_GIVEN */
	uint8_t read_only; /* 0, 1, NOT_GIVEN */
	uint8_t has_idem;  /* an Idempotency-Key was sent */
	uint8_t run;       /* for one run: in no list and no record, gone after a restart */
	uint8_t egress;    /* an allowlist was given, perhaps an empty one */
	uint8_t keep;      /* a run that a snapshot will be made of */
	uint8_t pad[2];
	uint8_t idem_key[32];  /* SHA-256 of its value */
	uint8_t idem_body[32]; /* SHA-256 of the request's path and body */
};

struct m_id {
	struct m_ask ask;
	uint64_t id;
};

struct m_timeout {
	struct m_ask ask;
	uint64_t sandbox;
	int64_t ttl_s;
};

/* tail of LIST: "name\0value" of a label, or nothing */
struct m_list {
	struct m_ask ask;
	int64_t after_us; /* cursor: the last one seen; 0, 0 from the start */
	uint64_t after_id;
	uint64_t sandbox; /* SNAPSHOTS: of this sandbox only; 0: all */
	uint32_t max;     /* items, at most PAGE_MAX */
	uint8_t pad[4];
};

struct m_exec {
	struct m_ask ask;
	uint64_t sandbox;
	struct m_job_exec job;
};

struct m_file {
	struct m_ask ask;
	uint64_t sandbox;
	struct m_job_file job;
};

/* tail: the name */
struct m_snapshot_make {
	struct m_ask ask;
	uint64_t sandbox;
	uint8_t has_name;
	uint8_t pad[7];
};

struct m_rollback {
	struct m_ask ask;
	uint64_t sandbox;
	uint64_t snapshot;
};

/* The final answer to whatever has no object of its own, and every refusal. */
/* tail: the message for the client */
struct m_reply {
	uint32_t status;      /* an HTTP status of API.md's table; 200, 204 */
	uint32_t retry_after; /* seconds; 0: none */
};

enum sandbox_status { SANDBOX_RUNNING, SANDBOX_STOPPED };

/* tail: image, NUL, then "name\0value\0" of each label, then the egress allowlist, its entries with
 * '\n' between them */
struct m_sandbox {
	uint64_t id;
	uint64_t source_snapshot; /* 0: none */
	int64_t created_us;
	int64_t expires_us;
	int64_t nano_cpus;
	int64_t memory_mb;
	int64_t pids_limit;
	uint8_t status; /* enum sandbox_status */
	uint8_t network;
	uint8_t read_only;
	uint8_t egress; /* it has an allowlist, perhaps an empty one */
	uint8_t pad[4];
	uint32_t labels_len; /* bytes of the tail */
	uint32_t pad2;
	char tenant[64]; /* whose it is; "": not for who asks to know */
};

/* tail: image, NUL, name */
struct m_snapshot {
	uint64_t id;
	uint64_t sandbox;
	uint64_t parent; /* 0: none */
	int64_t created_us;
	int64_t size_bytes;   /* of the tar */
	int64_t stored_bytes; /* on disk */
	uint8_t sha256[32];   /* of the tar */
	uint8_t has_name;
	uint8_t pad[7];
	char tenant[64]; /* whose it is; "": not for who asks to know */
};

struct m_page_end {
	uint8_t more; /* there are items behind the last one */
	uint8_t pad[7];
};

/* tail: why the engine is down, for the client */
struct m_health {
	uint8_t engine_up;
	uint8_t partial;    /* confinement */
	uint8_t hard_quota; /* workspace quota */
	uint8_t pad[5];
};

struct m_metrics {
	struct m_ask ask;
	uint8_t open; /* at AGENT_SANDBOX_METRICS_LISTEN, where nobody needs a key */
	uint8_t pad[7];
};

/* tail: the value of the label that is text, or nothing. In ascending order of metric, item, tail.
 */
struct m_metric {
	uint32_t metric; /* enum metric; one of managerd's */
	uint32_t item;   /* of a histogram: which of its set; else 0 */
	int64_t value[METRIC_VALUES];
};

/*     from      message       payload                 tail               fd */
#define APID_MANAGERD(X)                                                                     \
	X(APID, AUTH, struct m_auth, 0, FD_NONE)                                             \
	X(APID, ASK_HEALTH, struct m_none_am, 0, FD_NONE)                                    \
	X(APID, CREATE, struct m_create, IMAGE_MAX, FD_MUST)                                 \
	X(APID, GET, struct m_id, 0, FD_NONE)                                                \
	X(APID, LIST, struct m_list, LABEL_NAME_MAX + LABEL_VALUE_MAX + 2, FD_NONE)          \
	X(APID, DESTROY, struct m_id, 0, FD_NONE)                                            \
	X(APID, SET_TIMEOUT, struct m_timeout, 0, FD_NONE)                                   \
	X(APID, EXEC, struct m_exec, 0, FD_MUST)                                             \
	X(APID, FILE_READ, struct m_file, PATH_TAIL_MAX, FD_MUST)                            \
	X(APID, FILE_WRITE, struct m_file, PATH_TAIL_MAX, FD_MUST)                           \
	X(APID, FILE_LIST, struct m_file, PATH_TAIL_MAX, FD_MUST)                            \
	X(APID, ARCHIVE_GET, struct m_file, PATH_TAIL_MAX, FD_MUST)                          \
	X(APID, ARCHIVE_PUT, struct m_file, PATH_TAIL_MAX, FD_MUST)                          \
	X(APID, SNAPSHOT_MAKE, struct m_snapshot_make, SNAPSHOT_NAME_MAX, FD_NONE)           \
	X(APID, ROLLBACK, struct m_rollback, 0, FD_NONE)                                     \
	X(APID, SNAPSHOTS, struct m_list, 0, FD_NONE)                                        \
	X(APID, SNAPSHOT_GET, struct m_id, 0, FD_NONE)                                       \
	X(APID, SNAPSHOT_DELETE, struct m_id, 0, FD_NONE)                                    \
	X(APID, FORK, struct m_create, 0, FD_NONE)                                           \
	X(MANAGERD, REPLY, struct m_reply, TEXT_MAX, FD_NONE)                                \
	X(MANAGERD, SANDBOX, struct m_sandbox, SANDBOX_TAIL_MAX, FD_NONE)                    \
	X(MANAGERD, SNAPSHOT, struct m_snapshot, IMAGE_MAX + 1 + SNAPSHOT_NAME_MAX, FD_NONE) \
	X(MANAGERD, PAGE_END, struct m_page_end, 0, FD_NONE)                                 \
	X(MANAGERD, HEALTH, struct m_health, TEXT_MAX, FD_NONE)                              \
	X(APID, FILE_REMOVE, struct m_file, PATH_TAIL_MAX, FD_MUST)                          \
	X(APID, METRICS, struct m_metrics, 0, FD_NONE)                                       \
	X(MANAGERD, METRIC, struct m_metric, METRIC_TEXT_MAX, FD_NONE)

struct m_none_am {
	uint64_t pad;
};

enum { APID_MANAGERD_BASE = 0x0200 - 1, APID_MANAGERD(CHAN_X_ENUM) };
APID_MANAGERD(CHAN_X_ASSERT)
APID_MANAGERD(CHAN_X_SEND)
static const struct msg_spec apid_managerd_specs[] = {APID_MANAGERD(CHAN_X_SPEC)};
static const struct chan_proto apid_managerd_proto __attribute__((unused)) = {"apid-managerd",
    apid_managerd_specs, sizeof(apid_managerd_specs) / sizeof(apid_managerd_specs[0])};

#endif
