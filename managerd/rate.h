/* Token buckets, each in one number, and those of addresses whose keys fail. Pure. */
#ifndef MANAGERD_RATE_H
#define MANAGERD_RATE_H

#include <stddef.h>
#include <stdint.h>

/*
 * Takes one from a bucket that fills by one every step_us and holds burst_us / step_us. *level_us
 * is when it will be full (0: it is). Returns 0, or in how many microseconds there is one.
 */
int64_t rate_take(int64_t *level_us, int64_t step_us, int64_t burst_us, int64_t now_us);
/* As seconds for a Retry-After: at least 1. */
uint32_t rate_seconds(int64_t us);

/*
 * Buckets by address; of IPv6 the first 64 bits count. The room is fixed: where it is short, the
 * address that owes least is forgotten, so that a flood of addresses frees nobody who owes much.
 */
#define STRANGERS_SETS 1024
#define STRANGERS_WAYS 4

struct strangers {
	uint64_t secret[2]; /* so that nobody can choose addresses that share a set */
	struct stranger {
		uint64_t addr[2];
		int64_t level_us;
	} slots[STRANGERS_SETS][STRANGERS_WAYS];
};

/* One failure of this address, of a_minute that are free at once and in each minute; as
 * rate_take(). */
int64_t
strangers_take(struct strangers *, const uint8_t addr[16], int64_t a_minute, int64_t now_us);

/* This machine itself: a proxy there that is not trusted would stand for all clients. */
int rate_is_loopback(const uint8_t addr[16]);

#endif
