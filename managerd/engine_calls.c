/* Calls of dockerd-proxy, and their answers. */
#include <bsd/string.h>
#include <bsd/sys/queue.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/ids.h"
#include "common/log.h"
#include "managerd/box.h"
#include "managerd/engine.h"
#include "managerd/manager.h"
#include "managerd/metrics.h"
#include "managerd/policy.h"
#include "managerd/tenant.h"

struct call {
	TAILQ_ENTRY(call) entry;
	uint64_t id;
	uint32_t type;
	int64_t begun_us; /* CLOCK_BOOTTIME */
	engine_done done; /* NULL: nobody waits any more */
	void *arg;
	void (*item)(const struct m_d_item *);
	struct wreckage what; /* D_CREATE, D_RENAME */
	char container[72];   /* D_ATTACH, D_INSPECT, D_RENAME */
	int background;       /* no client waits for it */
	int sticky;           /* D_DESTROY: waits for the true answer whatever happens */
};

static TAILQ_HEAD(, call) calls = TAILQ_HEAD_INITIALIZER(calls);

uint64_t
engine_next_id(void)
{
	static uint64_t last;

	return ++last;
}

static struct call *
call_new(uint32_t type, engine_done done, void *arg)
{
	struct call *call;

	if ((call = calloc(1, sizeof(*call))) == NULL)
		fatal("engine call");
	call->id = engine_next_id();
	call->type = type;
	call->begun_us = time_boot_us();
	call->done = done;
	call->arg = arg;
	TAILQ_INSERT_TAIL(&calls, call, entry);
	return call;
}

void
engine_prepare(
    const char *image, const struct tenant *tenant, int local, engine_done done, void *arg)
{
	struct m_d_prepare m = {
	    .who = tenant != NULL ? (uint32_t)tenant->number + 1 : 0, .local = local != 0};
	struct call *call = call_new(MSG_D_PREPARE, done, arg);

	send_D_PREPARE(mgr.docker, call->id, &m, image, strlen(image), -1);
}

void
engine_create(const struct m_d_create *named, const struct spec *spec, engine_done done, void *arg)
{
	struct call *call = call_new(MSG_D_CREATE, done, arg);
	struct m_d_create m = *named;
	struct policy policy;
	char names[EGRESS_TEXT_MAX];
	size_t n = 0;

	policy_load(&policy, &mgr.child.config);
	m.network = egress_bridged(&policy.egress, spec);
	m.read_only = spec->read_only;
	m.nano_cpus = spec->nano_cpus;
	m.memory_mb = spec->memory_mb;
	m.pids_limit = spec->pids_limit;
	if (spec->egress != NULL)
		n = egress_names(spec->egress, names);
	call->what = (struct wreckage){m.sandbox, m.pool, m.generation};
	send_D_CREATE(mgr.docker, call->id, &m, names, n, -1);
}

static void
container_call(uint32_t type, const char *container, engine_done done, void *arg)
{
	struct m_d_container m = {0};
	struct call *call = call_new(type, done, arg);

	strlcpy(m.container, container, sizeof(m.container));
	strlcpy(call->container, container, sizeof(call->container));
	chan_send(mgr.docker, type, call->id, &m, sizeof(m), NULL, 0, -1);
}

void
engine_attach(const char *container, engine_done done, void *arg)
{
	container_call(MSG_D_ATTACH, container, done, arg);
}

void
engine_inspect(const char *container, engine_done done, void *arg)
{
	container_call(MSG_D_INSPECT, container, done, arg);
}

void
engine_update(const struct m_d_update *m, engine_done done, void *arg)
{
	struct call *call = call_new(MSG_D_UPDATE, done, arg);

	send_D_UPDATE(mgr.docker, call->id, m, NULL, 0, -1);
}

void
engine_rename(const char *container, const struct box *box, engine_done done, void *arg)
{
	struct m_d_rename m = {.sandbox = box->id, .generation = box->generation};
	struct call *call = call_new(MSG_D_RENAME, done, arg);

	strlcpy(m.container, container, sizeof(m.container));
	strlcpy(call->container, container, sizeof(call->container));
	call->what = (struct wreckage){box->id, box->pool, box->generation};
	send_D_RENAME(mgr.docker, call->id, &m, NULL, 0, -1);
}

void
engine_destroy(const struct m_d_destroy *m, engine_done done, void *arg)
{
	struct call *call = call_new(MSG_D_DESTROY, done, arg);

	call->sticky = 1;
	send_D_DESTROY(mgr.docker, call->id, m, NULL, 0, -1);
}

void
engine_take_away(const struct m_d_destroy *m, engine_done done, void *arg)
{
	struct call *call = call_new(MSG_D_DESTROY, done, arg);

	send_D_DESTROY(mgr.docker, call->id, m, NULL, 0, -1);
}

void
engine_list(void (*item)(const struct m_d_item *), engine_done done, void *arg)
{
	struct m_d_none none = {0};
	struct call *call = call_new(MSG_D_LIST, done, arg);

	call->item = item;
	send_D_LIST(mgr.docker, call->id, &none, NULL, 0, -1);
}

void
engine_drop(const void *arg)
{
	struct call *call;

	TAILQ_FOREACH (call, &calls, entry)
		if (call->arg == arg && !call->sticky)
			call->done = NULL;
}

int
engine_creating(const struct wreckage *what)
{
	struct call *call;

	TAILQ_FOREACH (call, &calls, entry)
		if (call->type == MSG_D_CREATE && wreckage_same(&call->what, what))
			return 1;
	return 0;
}

static int
engine_calls(uint32_t type, const char *container)
{
	struct call *call;

	TAILQ_FOREACH (call, &calls, entry)
		if (call->type == type && strcmp(call->container, container) == 0)
			return 1;
	return 0;
}

int
engine_attaching(const char *container)
{
	return engine_calls(MSG_D_ATTACH, container);
}

int
engine_renaming(const char *container)
{
	return engine_calls(MSG_D_RENAME, container);
}

void
engine_background(const void *arg)
{
	struct call *call;

	TAILQ_FOREACH (call, &calls, entry)
		if (call->arg == arg)
			call->background = 1;
}

int
engine_busy(void)
{
	struct call *call;

	TAILQ_FOREACH (call, &calls, entry)
		if ((call->type == MSG_D_CREATE || call->type == MSG_D_ATTACH ||
			call->type == MSG_D_PREPARE) &&
		    !call->background)
			return 1;
	return 0;
}

size_t
engine_calls_open(void)
{
	struct call *call;
	size_t n = 0;

	TAILQ_FOREACH (call, &calls, entry)
		n++;
	return n;
}

/* Everyone who waits is told; the calls stay until dockerd-proxy has answered. */
void
engine_calls_fail(void)
{
	struct answer a = {.failed = 1, .why = FAIL_UNREACHABLE, .text = engine_why(), .fd = -1};
	struct call *call;
	engine_done done;

again:
	TAILQ_FOREACH (call, &calls, entry) {
		if (call->done == NULL || call->sticky)
			continue;
		done = call->done;
		call->done = NULL;
		done(call->arg, &a);
		goto again;
	}
}

void
engine_answer(struct msg *m)
{
	struct answer a;
	struct call *call;

	TAILQ_FOREACH (call, &calls, entry)
		if (call->id == m->id)
			break;
	if (call == NULL || !answer_fits(call->type, m->type))
		fatalx("dockerd-proxy answered what was not asked");
	answer_read(m, &a);
	TAILQ_REMOVE(&calls, call, entry);
	metrics_engine_call(
	    call->type, time_boot_us() - call->begun_us, a.failed && engine_status(a.why) == 502);
	if (call->done != NULL)
		call->done(call->arg, &a);
	else if (a.fd != -1)
		close(a.fd);
	else if (call->type == MSG_D_CREATE)
		wreck_late(&call->what, a.failed ? "" : a.container);
	if (call->type == MSG_D_RENAME)
		wreck_late(&call->what, "");
	free(call);
}

void
engine_item(struct msg *m)
{
	const struct m_d_item *item = m->payload;
	struct call *call;

	TAILQ_FOREACH (call, &calls, entry)
		if (call->id == m->id && call->type == MSG_D_LIST)
			break;
	if (call == NULL)
		fatalx("dockerd-proxy listed what was not asked");
	if (item->kind > ITEM_VOLUME || item->state > STATE_GONE)
		fatalx("dockerd-proxy listed an unknown kind");
	if (item->kind == ITEM_CONTAINER)
		answer_container(item->container);
	if (call->done != NULL)
		call->item(item);
}
