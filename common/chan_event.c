/* Runs a channel on a libevent loop: always reads, and asks for writability only while packets
 * wait. */
#include "common/chan_event.h"

#include <stdlib.h>
#include <sys/time.h>

#include <event2/event.h>

#include "common/log.h"

struct glue {
	struct event *read, *write, *later;
};

static void
on_readable(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	chan_readable(arg);
}

static void
on_writable(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	chan_writable(arg);
}

static void
on_want_write(struct chan *c, int want)
{
	static const struct timeval pause = {0, 5000};
	struct glue *g = chan_arg2(c);

	event_del(g->write);
	event_del(g->later);
	if (want == CHAN_WANT_WRITE && event_add(g->write, NULL) == -1)
		fatalx("event_add");
	if (want == CHAN_WANT_LATER && event_add(g->later, &pause) == -1)
		fatalx("event_add");
}

static void
on_hold(struct chan *c, int on)
{
	struct glue *g = chan_arg2(c);

	if (on)
		event_del(g->read);
	else if (event_add(g->read, NULL) == -1)
		fatalx("event_add");
}

void
chan_event_hold(struct chan *c)
{
	chan_on_hold(c, on_hold);
}

static void
on_detach(struct chan *c)
{
	struct glue *g = chan_arg2(c);

	event_free(g->read);
	event_free(g->write);
	event_free(g->later);
	free(g);
}

struct chan *
chan_event_new(struct event_base *base, int fd, const struct chan_proto *proto, enum peer self,
    enum peer other, chan_handler handler, chan_gone gone, void *arg)
{
	struct glue *g = calloc(1, sizeof(*g));
	struct chan *c = chan_new(fd, proto, self, other, handler, gone, arg);

	if (c == NULL || g == NULL)
		fatalx("channel %s: out of memory", proto->name);
	g->read = event_new(base, fd, EV_READ | EV_PERSIST, on_readable, c);
	g->write = event_new(base, fd, EV_WRITE | EV_PERSIST, on_writable, c);
	g->later = event_new(base, -1, EV_PERSIST, on_writable, c);
	if (g->read == NULL || g->write == NULL || g->later == NULL ||
	    event_add(g->read, NULL) == -1)
		fatalx("channel %s: out of memory", proto->name);
	chan_on_want_write(c, on_want_write, g);
	chan_on_detach(c, on_detach);
	return c;
}
