/* Counts, and tells apid (metrics.h). All that is sent is in the order of the table, and names in
 * the order of their bytes, as apid insists. */
#include <bsd/string.h>
#include <stdlib.h>
#include <string.h>

#include "common/ids.h"
#include "common/log.h"
#include "common/pool_list.h"
#include "managerd/audit.h"
#include "managerd/box.h"
#include "managerd/engine.h"
#include "managerd/manager.h"
#include "managerd/metrics.h"
#include "managerd/pool_member.h"
#include "managerd/session.h"
#include "managerd/snap.h"
#include "managerd/tenant.h"
#include "proto/apid_managerd.h"

#define SLOTS (METRIC_TENANTS + 1) /* the last one is of the rest */
#define REST METRIC_TENANTS

static int64_t call_seconds[METRIC_CALLS][METRIC_VALUES];
static int64_t call_failures[METRIC_CALLS];
static int64_t verdicts[DIAL_FAILED + 1];
static uint64_t asked; /* the message that is being answered */

static enum metric_call
call_of(uint32_t type)
{
	switch (type) {
	case MSG_D_PREPARE:
		return METRIC_CALL_PREPARE;
	case MSG_D_CREATE:
		return METRIC_CALL_CREATE;
	case MSG_D_ATTACH:
		return METRIC_CALL_ATTACH;
	case MSG_D_INSPECT:
		return METRIC_CALL_INSPECT;
	case MSG_D_DESTROY:
		return METRIC_CALL_DESTROY;
	case MSG_D_UPDATE:
		return METRIC_CALL_UPDATE;
	case MSG_D_RENAME:
		return METRIC_CALL_RENAME;
	case MSG_D_LIST:
		return METRIC_CALL_LIST;
	default:
		return METRIC_CALL_PING;
	}
}

void
metrics_engine_call(uint32_t type, int64_t us, int failed)
{
	enum metric_call call = call_of(type);

	metric_observe(call_seconds[call], us);
	call_failures[call] += failed;
}

void
metrics_dial(uint32_t verdict)
{
	verdicts[verdict]++;
}

static void
send_values(enum metric metric, uint32_t item, const char *text, const int64_t *value, size_t n)
{
	struct m_metric m = {.metric = metric, .item = item};

	memcpy(m.value, value, n * sizeof(*value));
	send_METRIC(mgr.apid, asked, &m, text, strlen(text), -1);
}

static void
send_one(enum metric metric, const char *text, int64_t value)
{
	send_values(metric, 0, text, &value, 1);
}

/* What a tenant has, or all of the rest together. */
struct slot {
	const char *name;
	int64_t sandboxes[BOX_STATES], commands, snapshots, snapshot_bytes;
};

/* A tenant that is called as the rest is counts with it. */
static size_t
slot_of(const struct tenant *t)
{
	return t->number >= REST || strcmp(t->name, METRIC_REST) == 0 ? REST : t->number;
}

static void
count_box(struct box *box, void *slots)
{
	struct slot *slot = slots;

	slot[slot_of(box->tenant)].sandboxes[box->state]++;
}

static int
by_name(const void *a, const void *b)
{
	const struct slot *x = a, *y = b;

	if (x->name == NULL || y->name == NULL)
		return (x->name == NULL) - (y->name == NULL);
	return strcmp(x->name, y->name);
}

/* Returns how many slots have a name; these come first, in order. */
static size_t
count_tenants(struct slot slots[SLOTS])
{
	const struct tenant *t;
	struct slot *slot;
	size_t i, n = 0;

	memset(slots, 0, SLOTS * sizeof(*slots));
	for (i = 0; (t = tenant_numbered(i)) != NULL; i++) {
		slot = &slots[slot_of(t)];
		slot->name = slot_of(t) == REST ? METRIC_REST : t->name;
		slot->commands += (int64_t)t->execs;
		slot->snapshots += (int64_t)t->nsnaps;
		slot->snapshot_bytes += t->snapshot_bytes;
	}
	box_each(count_box, slots);
	qsort(slots, SLOTS, sizeof(*slots), by_name);
	while (n < SLOTS && slots[n].name != NULL)
		n++;
	return n;
}

static void
send_tenants(void)
{
	static struct slot slots[SLOTS];
	size_t i, n = count_tenants(slots);

	for (i = 0; i < n; i++)
		send_values(METRIC_sandboxes, 0, slots[i].name, slots[i].sandboxes, BOX_STATES);
	send_one(METRIC_sandboxes_limit, "", CFG(MAX_SANDBOXES));
	send_one(METRIC_sessions, "", (int64_t)session_count());
	for (i = 0; i < n; i++)
		send_one(METRIC_commands, slots[i].name, slots[i].commands);
	for (i = 0; i < n; i++)
		send_one(METRIC_snapshots, slots[i].name, slots[i].snapshots);
	for (i = 0; i < n; i++)
		send_one(METRIC_snapshot_bytes, slots[i].name, slots[i].snapshot_bytes);
}

static int
by_image(const void *a, const void *b)
{
	const struct pool_state *x = a, *y = b;

	return strcmp(x->image, y->image);
}

static void
send_pool(void)
{
	struct pool_state states[POOL_IMAGES_MAX];
	size_t i, n = pool_states(states);
	struct pool_counts counts;

	qsort(states, n, sizeof(states[0]), by_image);
	for (i = 0; i < n; i++)
		send_one(METRIC_pool_size, states[i].image, (int64_t)states[i].size);
	for (i = 0; i < n; i++)
		send_one(METRIC_pool_ready, states[i].image, (int64_t)states[i].ready);
	pool_counts(&counts);
	send_one(METRIC_pool_hits_total, "", counts.hits);
	send_values(METRIC_pool_misses_total, 0, "", counts.misses, POOL_MISS_KINDS);
}

static void
send_engine(void)
{
	uint32_t i;

	send_one(METRIC_engine_up, "", engine_up());
	send_one(METRIC_engine_calls, "", (int64_t)engine_calls_open());
	for (i = 0; i < METRIC_CALLS; i++)
		send_values(METRIC_engine_call_seconds, i, "", call_seconds[i], METRIC_VALUES);
	send_values(METRIC_engine_failures_total, 0, "", call_failures, METRIC_CALLS);
}

static void
send_audit(void)
{
	struct audit_stats stats;

	audit_stats(&stats);
	send_one(METRIC_audit_lines_total, "", (int64_t)stats.lines);
	send_one(METRIC_audit_bytes_total, "", (int64_t)stats.bytes);
	send_one(METRIC_audit_lost_total, "", (int64_t)stats.lost);
	send_one(METRIC_audit_checkpoints_total, "", (int64_t)stats.checkpoints);
	send_one(METRIC_audit_syslog_lost_total, "", (int64_t)stats.syslog_lost);
	send_one(METRIC_audit_lag_seconds, "", stats.lag_us > 0 ? stats.lag_us : 0);
	send_one(METRIC_audit_stuck, "", stats.stuck != 0);
}

void
metrics_send(uint64_t id)
{
	asked = id;
	send_one(METRIC_confinement_partial, "", mgr.partial);
	send_tenants();
	send_pool();
	send_engine();
	send_values(METRIC_egress_connections_total, 0, "", verdicts, DIAL_FAILED + 1);
	send_audit();
}
