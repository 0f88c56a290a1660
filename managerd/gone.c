/* Remembers for an hour why sandboxes ended: a ring, so that it cannot grow. */
#include <stddef.h>

#include "common/ids.h"
#include "managerd/gone.h"
#include "proto/managerd_sessiond.h"

#define GONE_MAX 8192
#define GONE_US (3600LL * 1000000)

static struct {
	uint64_t sandbox;
	const struct tenant *tenant;
	int64_t at_us; /* CLOCK_BOOTTIME */
	uint32_t reason;
} ring[GONE_MAX];
static size_t next;

void
gone_add(uint64_t sandbox, const struct tenant *tenant, uint32_t reason)
{
	ring[next].tenant = tenant;
	ring[next].sandbox = sandbox;
	ring[next].at_us = time_boot_us();
	ring[next].reason = reason;
	next = (next + 1) % GONE_MAX;
}

const char *
gone_why(uint64_t sandbox, const struct tenant *tenant)
{
	size_t i;

	for (i = 0; i < GONE_MAX; i++) {
		if (ring[i].sandbox != sandbox || (tenant != NULL && ring[i].tenant != tenant) ||
		    time_boot_us() - ring[i].at_us > GONE_US)
			continue;
		switch (ring[i].reason) {
		case END_DELETED:
			return "deleted: it was destroyed by a request";
		case END_EXPIRED:
			return "ttl: its time to live was over";
		default:
			return "backend: the engine no longer has its container";
		}
	}
	return NULL;
}
