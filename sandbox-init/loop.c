/* The poll loop: rebuilds its list on every turn, which for a few dozen descriptors is cheaper than
 * keeping one. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <time.h>

#include "sandbox-init/loop.h"
#include "sandbox-init/mem.h"

static struct watch **watches;
static size_t nwatches, watches_cap;
static struct timer **timers;
static size_t ntimers, timers_cap;

int64_t
loop_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

void
loop_watch(struct watch *w, int fd, void (*fn)(void *, short), void *arg)
{
	w->fd = fd;
	w->events = 0;
	w->fn = fn;
	w->arg = arg;
	if (nwatches == watches_cap) {
		watches_cap = watches_cap ? watches_cap * 2 : 32;
		watches = mem_resize(watches, watches_cap * sizeof(*watches));
	}
	watches[nwatches++] = w;
}

/* The slot stays empty until the next turn, so that a running dispatch keeps its place. */
void
loop_unwatch(struct watch *w)
{
	size_t i;

	for (i = 0; i < nwatches; i++)
		if (watches[i] == w)
			watches[i] = NULL;
	w->events = 0;
}

void
timer_set(struct timer *t, int64_t at, void (*fn)(void *), void *arg)
{
	timer_clear(t);
	t->at = at;
	t->fn = fn;
	t->arg = arg;
	if (ntimers == timers_cap) {
		timers_cap = timers_cap ? timers_cap * 2 : 16;
		timers = mem_resize(timers, timers_cap * sizeof(struct timer *));
	}
	timers[ntimers++] = t;
}

void
timer_clear(struct timer *t)
{
	size_t i;

	for (i = 0; i < ntimers; i++) {
		if (timers[i] == t) {
			timers[i] = timers[--ntimers];
			break;
		}
	}
	t->at = 0;
}

static void
timers_run(void)
{
	int64_t now = loop_now();
	struct timer *t;
	size_t i;

	for (i = 0; i < ntimers;) {
		t = timers[i];
		if (t->at > now) {
			i++;
			continue;
		}
		timer_clear(t);
		t->fn(t->arg);
		i = 0; /* the callback may have changed the list */
		now = loop_now();
	}
}

static int
timers_wait_ms(void)
{
	int64_t first = INT64_MAX, wait;
	size_t i;

	for (i = 0; i < ntimers; i++)
		if (timers[i]->at < first)
			first = timers[i]->at;
	if (first == INT64_MAX)
		return -1;
	wait = (first - loop_now() + 999) / 1000;
	return wait < 0 ? 0 : wait > 3600000 ? 3600000 : (int)wait;
}

/* Fills p[] with what is to be polled and at[] with the watch each belongs to. */
static nfds_t
collect(struct pollfd *p, size_t *at, int room)
{
	size_t i, n = 0, kept = 0;

	for (i = 0; i < nwatches; i++) {
		if (watches[i] == NULL)
			continue;
		watches[kept] = watches[i];
		if (watches[kept]->events != 0 && (room || !watches[kept]->outward)) {
			p[n].fd = watches[kept]->fd;
			p[n].events = watches[kept]->events;
			p[n].revents = 0;
			at[n++] = kept;
		}
		kept++;
	}
	nwatches = kept;
	return n;
}

/* Starts elsewhere on each turn: whoever comes first takes the room in the stream. */
static void
dispatch(const struct pollfd *p, const size_t *at, size_t n, const struct loop_hooks *hooks)
{
	static size_t turn;
	struct watch *w;
	size_t i, k;

	turn++;
	for (i = 0; i < n; i++) {
		k = (i + turn) % n;
		w = watches[at[k]];
		if (p[k].revents == 0 || w == NULL || w->events == 0 || w->fd != p[k].fd)
			continue;
		if (w->outward && !hooks->room())
			continue;
		w->fn(w->arg, p[k].revents);
	}
}

void
loop_run(const struct loop_hooks *hooks)
{
	struct pollfd *p = NULL;
	size_t *at = NULL;
	size_t cap = 0;
	int more, kept;
	nfds_t n;

	for (;;) {
		more = hooks->pump();
		kept = hooks->flush();
		if (cap < nwatches) {
			cap = watches_cap;
			p = mem_resize(p, cap * sizeof(*p));
			at = mem_resize(at, cap * sizeof(*at));
		}
		n = collect(p, at, hooks->room());
		more = kept || (more && hooks->room());
		if (poll(p, n, more ? 0 : timers_wait_ms()) > 0)
			dispatch(p, at, n, hooks);
		timers_run();
	}
}
