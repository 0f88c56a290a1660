/* Whether the engine is there, which a ping once a second tells; and who gets dockerd-proxy's
 * messages. */
#include <bsd/string.h>
#include <bsd/sys/queue.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

#include "common/ids.h"
#include "common/log.h"
#include "managerd/engine.h"
#include "managerd/instance.h"
#include "managerd/manager.h"
#include "managerd/metrics.h"
#include "managerd/pool.h"
#include "managerd/reconcile.h"

#define HUNG_US 3000000
#define PROBE_US 1800000
#define PROBE_RATE 4 /* pings a second that others can cause */

struct probe {
	TAILQ_ENTRY(probe) entry;
	void (*fn)(uint64_t, int);
	uint64_t arg;
	int64_t asked_us;
};

static TAILQ_HEAD(, probe) probes = TAILQ_HEAD_INITIALIZER(probes);
static struct event *ticker, *probe_timer;
static int connected, hung, was_up, hard_quota; /* not there until dockerd-proxy says so */
static int was_down;
static int other; /* it is there, but not the one that holds the sandboxes */
static int64_t started_us;
static char why[D_TEXT_MAX + 1] = "the Docker engine is unreachable";
static uint64_t ping_id; /* in flight; 0: none */
static int64_t ping_sent_us;
static int64_t probe_budget = PROBE_RATE;

static void ping_send(void);

int
engine_up(void)
{
	return connected && !hung && !other;
}

const char *
engine_why(void)
{
	return other ? "the engine at DOCKER_HOST is not the one that holds this server's "
		       "sandboxes; start with --adopt to go on with it"
		     : why;
}

int
engine_hard_quota(void)
{
	return hard_quota;
}

uint32_t
engine_status(enum d_failure failure)
{
	switch (failure) {
	case FAIL_NO_IMAGE:
	case FAIL_BAD_IMAGE:
		return 400;
	case FAIL_FORBIDDEN:
		return 403;
	case FAIL_LIMIT:
		return 429;
	default:
		return 502;
	}
}

static void
probes_answer(int64_t asked_before)
{
	struct probe *p, *next;

	TAILQ_FOREACH_SAFE (p, &probes, entry, next) {
		if (p->asked_us > asked_before)
			continue;
		TAILQ_REMOVE(&probes, p, entry);
		p->fn(p->arg, engine_up() && asked_before != INT64_MAX);
		free(p);
	}
}

/* After anything that may have changed whether the engine is there. */
static void
state_check(void)
{
	int up = engine_up();

	if (!up) {
		probes_answer(INT64_MAX);
		engine_calls_fail();
	}
	if (up == was_up)
		return;
	was_up = up;
	if (up && was_down)
		log_info("the Docker engine is there again");
	if (!up)
		log_warnx("%s", engine_why());
	was_down = !up;
	wreck_engine(up);
	if (up)
		reconcile_start();
}

static void
ping_send(void)
{
	struct m_d_none none = {0};

	if (ping_id != 0)
		return;
	ping_id = engine_next_id();
	ping_sent_us = time_boot_us();
	send_D_PING(mgr.docker, ping_id, &none, NULL, 0, -1);
}

static void
ping_answer(struct msg *m)
{
	int64_t sent = ping_sent_us;

	ping_id = 0;
	metrics_engine_call(MSG_D_PING, time_boot_us() - sent, m->type == MSG_D_FAILED);
	hung = m->type == MSG_D_FAILED;
	if (hung && connected)
		strlcpy(why, "the Docker engine is unreachable", sizeof(why));
	state_check();
	probes_answer(sent);
	if (!TAILQ_EMPTY(&probes))
		ping_send();
}

static void
tick(evutil_socket_t fd, short what, void *arg)
{
	(void)fd, (void)what, (void)arg;
	probe_budget = PROBE_RATE;
	if (time_boot_us() - started_us >= HUNG_US)
		manager_ready(); /* it hangs: then it is listed when it comes */
	if (ping_id != 0 && !hung && time_boot_us() - ping_sent_us >= HUNG_US) {
		hung = 1;
		strlcpy(why, "the Docker engine does not answer", sizeof(why));
	}
	state_check();
	if (connected)
		ping_send();
	wreck_tick();
}

static void
probe_timeout(evutil_socket_t fd, short what, void *arg)
{
	struct timeval tv = {0, 0};
	struct probe *p, *next;
	int64_t now = time_boot_us(), left = INT64_MAX;

	(void)fd, (void)what, (void)arg;
	TAILQ_FOREACH_SAFE (p, &probes, entry, next) {
		if (now - p->asked_us < PROBE_US) {
			if (PROBE_US - (now - p->asked_us) < left)
				left = PROBE_US - (now - p->asked_us);
			continue;
		}
		TAILQ_REMOVE(&probes, p, entry);
		p->fn(p->arg, 0);
		free(p);
	}
	if (left != INT64_MAX) {
		tv.tv_usec = left % 1000000;
		tv.tv_sec = left / 1000000;
		event_add(probe_timer, &tv);
	}
}

void
engine_probe(void (*fn)(uint64_t, int), uint64_t arg)
{
	struct timeval tv = {PROBE_US / 1000000, PROBE_US % 1000000};
	struct probe *p;

	if (!engine_up() || probe_budget == 0) {
		fn(arg, engine_up());
		return;
	}
	probe_budget--;
	if ((p = calloc(1, sizeof(*p))) == NULL)
		fatal("probe");
	p->fn = fn;
	p->arg = arg;
	p->asked_us = time_boot_us();
	TAILQ_INSERT_TAIL(&probes, p, entry);
	if (!event_pending(probe_timer, EV_TIMEOUT, NULL))
		event_add(probe_timer, &tv);
	ping_send();
}

void
engine_start(void)
{
	struct m_d_instance m = {0};
	struct timeval second = {1, 0};

	started_us = time_boot_us();
	strlcpy(m.uuid, mgr.uuid, sizeof(m.uuid));
	send_D_INSTANCE(mgr.docker, engine_next_id(), &m, NULL, 0, -1);
	if ((ticker = event_new(mgr.base, -1, EV_PERSIST, tick, NULL)) == NULL ||
	    (probe_timer = event_new(mgr.base, -1, 0, probe_timeout, NULL)) == NULL ||
	    event_add(ticker, &second) == -1)
		fatalx("engine: out of memory");
}

static void
on_engine(const struct m_d_engine *engine, struct msg *m)
{
	if (memchr(engine->id, '\0', sizeof(engine->id)) == NULL)
		fatalx("dockerd-proxy sent an endless engine id");
	connected = engine->up != 0;
	other = connected && instance_engine(engine->id) == -1;
	hard_quota = engine->hard_quota != 0;
	if (!connected)
		strlcpy(why, m->tail_len > 0 ? m->tail : "the Docker engine is unreachable",
		    sizeof(why));
	else if (other && !was_up)
		log_warnx("%s", engine_why());
	if (!connected || other) {
		state_check();
		manager_ready();
		return;
	}
	hung = 0;
	state_check();
	reconcile_start();
	ping_send();
}

void
engine_message(struct chan *c, struct msg *m)
{
	const struct m_d_event *event;

	(void)c;
	switch (m->type) {
	case MSG_D_ENGINE:
		on_engine(m->payload, m);
		break;
	case MSG_D_EVENT:
		event = m->payload;
		if (event->event > EVENT_DESTROY)
			fatalx("dockerd-proxy sent an unknown event");
		answer_container(event->container);
		pool_event(event->container, event->event);
		reconcile_event(event->container, event->event);
		break;
	case MSG_D_ITEM:
		engine_item(m);
		break;
	default:
		if (m->id == ping_id && ping_id != 0)
			ping_answer(m);
		else
			engine_answer(m);
	}
}
