/* What is to be removed at the engine, however long that takes; what nobody waits for, when it is
 * quiet. */
#include <bsd/string.h>
#include <bsd/sys/queue.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

#include "common/ids.h"
#include "common/log.h"
#include "managerd/engine.h"
#include "managerd/manager.h"
#include "managerd/quiet.h"

#define RETRY_MIN_US 1000000
#define RETRY_MAX_US 30000000
#define AT_ONCE 32 /* calls in flight: what waits here still counts in dockerd-proxy */
/* Of what waits for quiet: */
#define LATER_MAX 16     /* so many: what they left in memory is still there */
#define LATER_US 2000000 /* so long */
#define LATER_AT_ONCE 2  /* calls in flight when it is quiet, which may end any time */
#define LATER_LOOK_US 50000

struct wreck {
	TAILQ_ENTRY(wreck) entry;
	struct wreckage what;
	char container[72];
	int asked;        /* a D_DESTROY is in flight */
	int later;        /* it waits for quiet, until after_us at most */
	int told;         /* done() heard of the first failure */
	int64_t wait_us;  /* before the next try */
	int64_t after_us; /* CLOCK_BOOTTIME */
	wreck_done done;
	void *arg;
};

static TAILQ_HEAD(, wreck) wrecks = TAILQ_HEAD_INITIALIZER(wrecks);
static int in_flight;
static size_t nlater;
static int hurried; /* nothing waits any more */
static struct event *later_timer;

static void wreck_try(struct wreck *);

static struct wreck *
wreck_find(const struct wreckage *what)
{
	struct wreck *w;

	TAILQ_FOREACH (w, &wrecks, entry)
		if (wreckage_same(&w->what, what))
			return w;
	return NULL;
}

static void
wrecks_try(void)
{
	struct wreck *w, *next;
	int64_t now = time_boot_us();

	TAILQ_FOREACH_SAFE (w, &wrecks, entry, next)
		if (!w->asked && w->after_us <= now)
			wreck_try(w);
}

static void
later_end(struct wreck *w)
{
	nlater -= w->later;
	w->later = 0;
	w->after_us = 0;
}

static void
wreck_failed(struct wreck *w)
{
	if (w->told || w->done == NULL)
		return;
	w->told = 1;
	w->done(w->arg, 1);
}

static void
wreck_answer(void *arg, const struct answer *a)
{
	struct wreck *w = arg;

	w->asked = 0;
	in_flight--;
	if (a->failed && a->why != FAIL_GONE) {
		w->wait_us = w->wait_us == 0 ? RETRY_MIN_US : w->wait_us * 2;
		if (w->wait_us > RETRY_MAX_US)
			w->wait_us = RETRY_MAX_US;
		w->after_us = time_boot_us() + w->wait_us;
		log_warnx("the engine did not remove a sandbox, trying again: %s", a->text);
		wreck_failed(w);
	} else {
		TAILQ_REMOVE(&wrecks, w, entry);
		if (w->done != NULL)
			w->done(w->arg, 0);
		free(w);
	}
	wrecks_try();
}

static void
wreck_try(struct wreck *w)
{
	struct m_d_destroy m = {
	    .sandbox = w->what.sandbox, .pool = w->what.pool, .generation = w->what.generation};

	if (!engine_up() || in_flight >= AT_ONCE || engine_creating(&w->what) ||
	    engine_renaming(w->container))
		return;
	strlcpy(m.container, w->container, sizeof(m.container));
	later_end(w);
	w->asked = 1;
	in_flight++;
	engine_destroy(&m, wreck_answer, w);
}

static struct wreck *
wreck_note(const struct wreckage *what, const char *container, wreck_done done, void *arg)
{
	struct wreck *w;

	if ((w = wreck_find(what)) == NULL) {
		if ((w = calloc(1, sizeof(*w))) == NULL)
			fatal("wreck");
		w->what = *what;
		TAILQ_INSERT_TAIL(&wrecks, w, entry);
	}
	if (*container != '\0')
		strlcpy(w->container, container, sizeof(w->container));
	w->done = done;
	w->arg = arg;
	w->told = 0;
	return w;
}

void
wreck_add(const struct wreckage *what, const char *container, wreck_done done, void *arg)
{
	struct wreck *w = wreck_note(what, container, done, arg);

	if (w->asked)
		return;
	later_end(w);
	if (!engine_up())
		wreck_failed(w);
	else
		wreck_try(w);
}

static void
later_look(evutil_socket_t fd, short events, void *arg)
{
	struct timeval tv = {0, LATER_LOOK_US};
	struct wreck *w;

	(void)fd, (void)events, (void)arg;
	if (nlater > 0 && quiet())
		TAILQ_FOREACH (w, &wrecks, entry)
			if (w->later && in_flight < LATER_AT_ONCE)
				wreck_try(w);
	wrecks_try();
	if (nlater > 0)
		event_add(later_timer, &tv);
}

/* The oldest ones wait no longer. */
static void
later_keep(size_t most)
{
	struct wreck *w, *next;

	TAILQ_FOREACH_SAFE (w, &wrecks, entry, next) {
		if (nlater <= most)
			return;
		if (!w->later)
			continue;
		later_end(w);
		wreck_try(w);
	}
}

void
wreck_add_later(const struct wreckage *what, const char *container, wreck_done done, void *arg)
{
	struct timeval tv = {0, LATER_LOOK_US};
	struct wreck *w;

	if (hurried || !engine_up() || wreck_find(what) != NULL) {
		wreck_add(what, container, done, arg);
		return;
	}
	if (later_timer == NULL &&
	    (later_timer = event_new(mgr.base, -1, 0, later_look, NULL)) == NULL)
		fatalx("wreck: out of memory");
	w = wreck_note(what, container, done, arg);
	w->later = 1;
	nlater++;
	w->after_us = time_boot_us() + LATER_US;
	later_keep(LATER_MAX);
	if (!event_pending(later_timer, EV_TIMEOUT, NULL))
		event_add(later_timer, &tv);
}

void
wreck_room(size_t places, size_t used)
{
	later_keep(used < places ? places - used : 0);
}

void
wreck_hurry(void)
{
	hurried = 1;
	later_keep(0);
}

void
wreck_forget(const void *arg)
{
	struct wreck *w;

	TAILQ_FOREACH (w, &wrecks, entry)
		if (w->arg == arg)
			w->done = NULL;
}

/* The volume of a member that was claimed goes with the rest of its sandbox. */
int
wreck_known(const struct wreckage *what)
{
	struct wreck *w;

	if (what->sandbox != 0)
		return wreck_find(what) != NULL;
	TAILQ_FOREACH (w, &wrecks, entry)
		if (w->what.pool == what->pool)
			return 1;
	return 0;
}

size_t
wreck_pool(void)
{
	struct wreck *w;
	size_t n = 0;

	TAILQ_FOREACH (w, &wrecks, entry)
		n += w->what.sandbox == 0 && w->what.pool != 0;
	return n;
}

/* A D_CREATE or D_RENAME was answered: if it is to be removed, now it can be. */
void
wreck_late(const struct wreckage *what, const char *container)
{
	struct wreck *w = wreck_find(what);

	if (w == NULL)
		return;
	if (*container != '\0')
		strlcpy(w->container, container, sizeof(w->container));
	if (!w->asked && !w->later)
		wreck_try(w);
}

void
wreck_engine(int up)
{
	struct wreck *w, *next;

	TAILQ_FOREACH_SAFE (w, &wrecks, entry, next) {
		later_end(w);
		w->wait_us = 0;
		if (!up)
			wreck_failed(w);
	}
	if (up)
		wrecks_try();
}

void
wreck_tick(void)
{
	if (engine_up() && !TAILQ_EMPTY(&wrecks))
		wrecks_try();
}
