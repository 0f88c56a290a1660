/* Compares what a tenant has with what it may have: counted anew each time, so that nothing drifts.
 */
#include "common/ids.h"
#include "managerd/box.h"
#include "managerd/manager.h"
#include "managerd/quota.h"
#include "managerd/rate.h"
#include "managerd/record.h"
#include "managerd/request.h"
#include "managerd/snap.h"
#include "managerd/tenant.h"

#define RETRY_SECONDS 5
#define BURST_US 2000000 /* what may come at once: that of two seconds */

struct usage {
	const struct tenant *tenant;
	int64_t sandboxes, leaving;
	int64_t nano_cpus, memory_mb;
};

static void
usage_add(struct box *box, void *arg)
{
	struct usage *u = arg;

	if (box->tenant != u->tenant)
		return;
	if (box->state == BOX_DESTROYING && !box->listed) {
		u->leaving++;
		return;
	}
	u->sandboxes++;
	u->nano_cpus += box->spec.nano_cpus;
	u->memory_mb += box->spec.memory_mb;
}

static int
over(const struct tenant *t, enum keys_quota quota, int64_t use)
{
	return t->quota[quota] != KEYS_NO_QUOTA && use > t->quota[quota];
}

int
quota_crowded(const struct tenant *t)
{
	struct usage u = {.tenant = t};

	if (t == NULL || t->quota[QUOTA_SANDBOXES] == KEYS_NO_QUOTA)
		return 0;
	box_each(usage_add, &u);
	return u.sandboxes + u.leaving > t->quota[QUOTA_SANDBOXES] / 2;
}

/* unit: as "sandboxes" in the text that the client reads. */
static int
refuse(struct request *rq, const struct tenant *t, enum keys_quota quota, const char *unit,
    uint32_t retry)
{
	char text[KEYS_QUOTA_TEXT];

	request_retry(rq, 429, retry, "tenant quota of %s %s reached",
	    keys_quota_text(text, quota, t->quota[quota]), unit);
	return -1;
}

int
quota_sandbox(struct request *rq, const struct spec *spec)
{
	const struct tenant *t = rq->tenant;
	struct usage u = {.tenant = t};

	box_each(usage_add, &u);
	if (over(t, QUOTA_SANDBOXES, u.sandboxes + 1))
		return refuse(rq, t, QUOTA_SANDBOXES, "sandboxes", RETRY_SECONDS);
	if (over(t, QUOTA_CPUS, u.nano_cpus + spec->nano_cpus))
		return refuse(rq, t, QUOTA_CPUS, "cpus", RETRY_SECONDS);
	if (over(t, QUOTA_MEMORY_MB, u.memory_mb + spec->memory_mb))
		return refuse(rq, t, QUOTA_MEMORY_MB, "MiB of memory", RETRY_SECONDS);
	/* Those that are being removed hold a container still. */
	if (t->quota[QUOTA_SANDBOXES] != KEYS_NO_QUOTA &&
	    u.sandboxes + u.leaving >= 2 * t->quota[QUOTA_SANDBOXES]) {
		request_retry(rq, 429, 1, "too many sandboxes are still being removed; try again");
		return -1;
	}
	return 0;
}

int
quota_exec(struct request *rq)
{
	const struct tenant *t = rq->tenant;

	if (over(t, QUOTA_EXECS, (int64_t)t->execs + 1))
		return refuse(rq, t, QUOTA_EXECS, "commands at once", 1);
	return 0;
}

/* Of the tenant's quota for more snapshots, if there is one: it may be below 0. */
static int64_t
snapshots_left(const struct tenant *t)
{
	return t->quota[QUOTA_SNAPSHOT_BYTES] - t->snapshot_bytes - t->snapshot_reserved;
}

/* The most that a snapshot can take: of a tar that cannot be compressed, which becomes longer by
 * some bytes for every 128 KiB, and its record. */
static int64_t
snapshot_most(void)
{
	int64_t tar = CFG(MAX_SNAPSHOT_BYTES);

	return tar + tar / 256 + 2 * RECORD_JSON_MAX;
}

int
quota_snapshot(struct request *rq, const struct snap *snap)
{
	const struct tenant *t = snap->tenant;
	int64_t file = snap->stored_bytes > 0 ? snap->stored_bytes : 1;

	if (over(t, QUOTA_SNAPSHOTS, (int64_t)(t->nsnaps + t->nmaking) + 1))
		return refuse(rq, t, QUOTA_SNAPSHOTS, "snapshots", RETRY_SECONDS);
	if (t->quota[QUOTA_SNAPSHOT_BYTES] == KEYS_NO_QUOTA)
		return 0;
	if (snapshots_left(t) - snap->record_bytes < file)
		return refuse(rq, t, QUOTA_SNAPSHOT_BYTES, "bytes of snapshots", RETRY_SECONDS);
	return 0;
}

int
quota_snapshot_waits(const struct tenant *t)
{
	return t->quota[QUOTA_SNAPSHOT_BYTES] != KEYS_NO_QUOTA && t->snapshot_reserved > 0 &&
	       snapshots_left(t) < snapshot_most();
}

int64_t
quota_snapshot_reserve(struct snap *snap)
{
	struct tenant *t = snap->tenant;
	int64_t left = snapshots_left(t), most = snapshot_most();

	t->nmaking++;
	if (t->quota[QUOTA_SNAPSHOT_BYTES] == KEYS_NO_QUOTA)
		return 0;
	snap->reserved = left < most ? left : most;
	t->snapshot_reserved += snap->reserved;
	return snap->reserved - snap->record_bytes;
}

void
quota_snapshot_release(struct snap *snap)
{
	snap->tenant->nmaking--;
	snap->tenant->snapshot_reserved -= snap->reserved;
	snap->reserved = 0;
}

int64_t
quota_request(struct tenant *t, int64_t now_us)
{
	int64_t a_second = t->quota[QUOTA_REQUESTS];

	if (a_second == KEYS_NO_QUOTA)
		return 0;
	return rate_take(&t->rate_us, 1000000 / a_second, BURST_US, now_us);
}
