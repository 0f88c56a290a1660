/*
 * The pool: sandboxes that are started, attached and greeted before anybody asks for them. Each is
 * claimed once and never comes back. No record knows those that nobody claimed: what is left of an
 * earlier run is removed at the start.
 */
#ifndef MANAGERD_POOL_H
#define MANAGERD_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "managerd/spec.h"

struct session;

/* Why a sandbox is not from the pool: name, and what the log says. */
#define POOL_MISSES(X)                                                    \
	X(POOL_IMAGE, "image", "its image is not in the pool")            \
	X(POOL_EMPTY, "empty", "no sandbox of its image is ready")        \
	X(POOL_NETWORK, "network", "it has network")                      \
	X(POOL_EGRESS, "egress", "it has a list of hosts of its own")     \
	X(POOL_ROOTFS, "rootfs", "its root is writable")                  \
	X(POOL_MEMORY, "memory", "it has less memory than a default one") \
	X(POOL_LIMITS, "limits", "the runtime cannot change limits")      \
	X(POOL_UPDATE, "update", "the engine refused its limits")         \
	X(POOL_LOST, "lost", "the ready one was lost")
#define POOL_X_ENUM(name, key, text) name,
enum pool_miss { POOL_MISSES(POOL_X_ENUM) POOL_MISS_KINDS };

/* A member that fits: its session, which is up, is the caller's now, and so is its removal. */
struct pool_claim {
	uint64_t pool;
	struct session *session;
	char container[72];
	int update; /* its limits are the default ones, and others are asked for */
};

struct pool_state;
void pool_start(void);
/* Its images, at most POOL_IMAGES_MAX; returns how many. */
size_t pool_states(struct pool_state *);
/* 1: taken. 0: none fits. */
int pool_claim(const struct spec *, struct pool_claim *);
/* What was claimed for this turned out to be of no use. */
void pool_missed(const struct spec *, enum pool_miss);
/* Something that members were waiting for may be there. */
void pool_refill(void);
/* Whether it is a member that nobody has claimed yet. */
int pool_has(uint64_t pool);
/* enum d_event about a container */
void pool_event(const char *container, uint32_t event);
/* The server is going down: removes all, and makes none. */
void pool_drain(void);

/* pool_report.c: counts, the log's lines about misses, and pool.json for "agent-sandbox doctor". */
struct pool_state {
	const char *image;
	size_t size, ready;
};
struct pool_counts {
	int64_t hits, misses[POOL_MISS_KINDS];
};
void pool_counts(struct pool_counts *);
void pool_count_hit(void);
void pool_count_miss(const struct spec *, enum pool_miss);
/* Once a second: writes what has changed since. */
void pool_report(const struct pool_state *, size_t n);
void pool_report_remove(void);

#endif
