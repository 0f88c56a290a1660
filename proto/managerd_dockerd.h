/*
 * managerd <-> dockerd-proxy: what may be asked of the engine. dockerd-proxy makes every engine
 * call itself from these few typed fields, checks them again against the parent's limits, and acts
 * only on container ids that it made or saw carrying our label. Each request gets one answer with
 * its id: D_DONE, D_PREPARED, D_CREATED, D_ATTACHED, D_STATE, D_LIST_END or D_FAILED. D_EVENT and
 * D_ENGINE come by themselves.
 */
#ifndef PROTO_MANAGERD_DOCKERD_H
#define PROTO_MANAGERD_DOCKERD_H

#include "common/chan.h"
#include "proto/dial.h"

#define D_IMAGE_MAX 512
#define D_TEXT_MAX 1024
#define CONTAINER_ID_LEN 64

struct m_d_none {
	uint64_t pad;
};

struct m_d_instance {
	char uuid[40]; /* of the data directory: our label's value */
};

struct m_d_prepared {
	char image_id[72]; /* "sha256:" + 64 hex of the prepared image */
	char base_id[72];  /* of the base image */
};

/* The image is pulled when it is not there, unless local is 1. Of one `who` few pulls run at once.
 */
struct m_d_prepare {
	uint32_t who; /* a number of the tenant's; 0: the server itself */
	uint8_t local;
	uint8_t pad[3];
};

/*
 * Names: container and volume "agent-sandbox-sb_<id>-<generation>"; those of a member of the pool
 * "agent-sandbox-pool_<id>", until D_RENAME gives the container the name of the sandbox that
 * claimed it. Volume and container are made, nothing started. tail: names for the file of hosts
 * inside, with '\n' between.
 */
struct m_d_create {
	uint64_t sandbox; /* 0: a member of the pool */
	uint64_t pool; /* the member; of a sandbox: its volume (keep_volume) has that name; or 0 */
	uint32_t generation;
	uint8_t network;
	uint8_t read_only;
	uint8_t keep_volume; /* the volume exists (a new container for it) */
	uint8_t pad;
	int64_t nano_cpus;
	int64_t memory_mb;
	int64_t pids_limit;
	char image_id[72]; /* a prepared image that D_PREPARED or D_LIST named */
};

struct m_d_container {
	char container[72]; /* 64 hex and NUL */
};

/* Removes what exists of one generation; what is not there is a success. container may be "" (never
 * made). */
struct m_d_destroy {
	uint64_t sandbox; /* 0: a member of the pool that nobody claimed */
	uint64_t pool;    /* whose name the volume has, and perhaps the container; or 0 */
	uint32_t generation;
	uint8_t keep_volume;
	uint8_t pad[3];
	char container[72];
};

/* A member of the pool gets other limits than the default ones. */
struct m_d_update {
	char container[72];
	int64_t nano_cpus;
	int64_t memory_mb;
	int64_t pids_limit;
};

/* A member of the pool becomes the container of this sandbox. */
struct m_d_rename {
	char container[72];
	uint64_t sandbox;
	uint32_t generation;
	uint32_t pad;
};

enum container_state { STATE_CREATED, STATE_RUNNING, STATE_PAUSED, STATE_EXITED, STATE_GONE };

struct m_d_state {
	char container[72];
	uint32_t state;            /* enum container_state */
	uint8_t oom;               /* the engine says that PID 1 was killed for memory */
	uint8_t foreign_workspace; /* PID 1 refused to start: GUEST_EXIT_WORKSPACE */
	uint8_t pad[2];
};

enum d_item_kind { ITEM_CONTAINER, ITEM_VOLUME };

struct m_d_item {
	uint64_t sandbox; /* 0: the name is not of a sandbox */
	uint64_t pool;    /* named as this member, or a container with its volume; or 0 */
	uint32_t generation;
	uint32_t kind;  /* enum d_item_kind */
	uint32_t state; /* enum container_state */
	uint32_t pad;
	char container[72]; /* "" for a volume */
};

enum d_event { EVENT_START, EVENT_DIE, EVENT_PAUSE, EVENT_UNPAUSE, EVENT_DESTROY };

struct m_d_event {
	uint32_t event; /* enum d_event */
	uint32_t pad;
	char container[72];
};

/* What the engine is; sent after each (re)connection and whenever it changes. */
/* tail: why it is down */
struct m_d_engine {
	uint8_t up;
	uint8_t hard_quota; /* volumes can carry a quota: always 0 in this version */
	uint8_t pad[6];
	char version[32];
	char api[8];
	char id[136]; /* which engine it is: the same while it holds the same things */
};

enum d_failure {
	FAIL_UNREACHABLE, /* engine down or hung: 502 */
	FAIL_ENGINE,      /* it answered with an error: 502 */
	FAIL_NO_IMAGE,    /* unknown, or refused by the registry: 400 */
	FAIL_BAD_IMAGE,   /* foreign /workspace, other platform, malformed name: 400 */
	FAIL_FORBIDDEN,   /* policy: 403 */
	FAIL_LIMIT,       /* too many containers: 429 */
	FAIL_GONE,        /* no such container (any more) */
};

/* tail: a fixed text per class, fit for clients: no paths, no ids of others */
struct m_d_failed {
	uint32_t why; /* enum d_failure */
	uint32_t pad;
};

/*     from           message       payload               tail         fd */
#define MANAGERD_DOCKERD(X)                                                \
	X(MANAGERD, D_INSTANCE, struct m_d_instance, 0, FD_NONE)           \
	X(MANAGERD, D_PREPARE, struct m_d_prepare, D_IMAGE_MAX, FD_NONE)   \
	X(MANAGERD, D_CREATE, struct m_d_create, EGRESS_TEXT_MAX, FD_NONE) \
	X(MANAGERD, D_ATTACH, struct m_d_container, 0, FD_NONE)            \
	X(MANAGERD, D_INSPECT, struct m_d_container, 0, FD_NONE)           \
	X(MANAGERD, D_DESTROY, struct m_d_destroy, 0, FD_NONE)             \
	X(MANAGERD, D_LIST, struct m_d_none, 0, FD_NONE)                   \
	X(MANAGERD, D_PING, struct m_d_none, 0, FD_NONE)                   \
	X(DOCKERD_PROXY, D_DONE, struct m_d_none, 0, FD_NONE)              \
	X(DOCKERD_PROXY, D_PREPARED, struct m_d_prepared, 0, FD_NONE)      \
	X(DOCKERD_PROXY, D_CREATED, struct m_d_container, 0, FD_NONE)      \
	X(DOCKERD_PROXY, D_ATTACHED, struct m_d_container, 0, FD_MUST)     \
	X(DOCKERD_PROXY, D_STATE, struct m_d_state, 0, FD_NONE)            \
	X(DOCKERD_PROXY, D_ITEM, struct m_d_item, 0, FD_NONE)              \
	X(DOCKERD_PROXY, D_LIST_END, struct m_d_none, 0, FD_NONE)          \
	X(DOCKERD_PROXY, D_EVENT, struct m_d_event, 0, FD_NONE)            \
	X(DOCKERD_PROXY, D_ENGINE, struct m_d_engine, D_TEXT_MAX, FD_NONE) \
	X(DOCKERD_PROXY, D_FAILED, struct m_d_failed, D_TEXT_MAX, FD_NONE) \
	X(MANAGERD, D_UPDATE, struct m_d_update, 0, FD_NONE)               \
	X(MANAGERD, D_RENAME, struct m_d_rename, 0, FD_NONE)

enum { MANAGERD_DOCKERD_BASE = 0x0300 - 1, MANAGERD_DOCKERD(CHAN_X_ENUM) };
MANAGERD_DOCKERD(CHAN_X_ASSERT)
MANAGERD_DOCKERD(CHAN_X_SEND)
static const struct msg_spec managerd_dockerd_specs[] = {MANAGERD_DOCKERD(CHAN_X_SPEC)};
static const struct chan_proto managerd_dockerd_proto __attribute__((unused)) = {"managerd-dockerd",
    managerd_dockerd_specs, sizeof(managerd_dockerd_specs) / sizeof(managerd_dockerd_specs[0])};

#endif
