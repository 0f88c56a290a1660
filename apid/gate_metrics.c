/* The second door: AGENT_SANDBOX_METRICS_LISTEN, a loopback address where GET /metrics needs no
 * key and nothing else is served (metrics.h). */
#include <event2/event.h>
#include <event2/http.h>
#include <event2/listener.h>
#include <sys/socket.h>

#include "apid/apid.h"
#include "apid/gate_listen.h"
#include "apid/metrics.h"
#include "common/log.h"

static struct evconnlistener *listener;
static struct event *again;

static void
on_again(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
	if (!gate_is_going_down())
		evconnlistener_enable(listener);
}

/* Out of descriptors: a short rest, or accept would spin. */
static void
on_accept_error(struct evconnlistener *l, void *arg)
{
	static const struct timeval rest = {0, 200000};

	(void)l;
	(void)arg;
	evconnlistener_disable(listener);
	evtimer_add(again, &rest);
}

static int
does_listen(int fd)
{
	int on = 0;
	socklen_t len = sizeof(on);

	return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &len) == 0 && on;
}

void
gate_metrics_open(int fd)
{
	struct evhttp *http;

	if (listener != NULL || !does_listen(fd))
		fatalx("parent: not a socket for metrics");
	http = gate_http_new(apid.base, &listener);
	listener = evconnlistener_new(
	    apid.base, NULL, NULL, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 0, fd);
	again = evtimer_new(apid.base, on_again, NULL);
	if (evutil_make_socket_nonblocking(fd) == -1 || again == NULL || listener == NULL ||
	    evhttp_bind_listener(http, listener) == NULL)
		fatalx("listener");
	evconnlistener_set_error_cb(listener, on_accept_error);
}

void
gate_metrics_close(void)
{
	if (listener != NULL)
		evconnlistener_disable(listener);
}
