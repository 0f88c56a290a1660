/* Accepting, the bound on connections, and the one clock that ends those which take too long
 * (gate.h). */
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/listener.h>
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "apid/apid.h"
#include "apid/gate_listen.h"
#include "apid/metrics.h"
#include "apid/places.h"
#include "apid/route.h"
#include "apid/tls.h"
#include "common/log.h"

#define HEAD_SECONDS 10        /* from the first byte of a head to its last */
#define IDLE_SECONDS 60        /* between requests */
#define RATE_SECONDS 30        /* in each such window a body must bring … */
#define RATE_BYTES (64 * 1024) /* … this many bytes */
#define STALL_SECONDS 30       /* a client that reads nothing of what waits for it */
#define UNSENT_MAX (128 * 1024)
#define LINGER_SECONDS 2 /* after our last byte */
#define REFUSALS_A_SECOND 5
#define TRIM_SECONDS 10
#define TRIM_ABOVE (8 * 1024 * 1024)
#define ACCEPT_STEP 64 /* new connections before those that are there have their turn */

TAILQ_HEAD(conn_list, conn);
static struct conn_list conns = TAILQ_HEAD_INITIALIZER(conns);
static size_t nconns;
static struct evconnlistener *listener;
static struct event *ticker, *again;
static uint32_t tick;
static unsigned refusals, in_row;
static void (*when_down)(void);

uint32_t
gate_tick(void)
{
	return tick;
}

size_t
gate_connections(void)
{
	return nconns;
}

int
gate_is_going_down(void)
{
	return when_down != NULL;
}

int
gate_may_log(void)
{
	if (++refusals == REFUSALS_A_SECOND + 1)
		log_warnx(
		    "more requests that were malformed or cut off in this second are not logged");
	return refusals <= REFUSALS_A_SECOND;
}

void
gate_log_refusal(const char *peer, const char *id, int status, const char *why)
{
	log_request(id);
	if (gate_may_log())
		log_warnx("%s: %d %s", peer, status, why);
	log_request(NULL);
}

void
gate_log_handshake(const char *peer, const char *why)
{
	if (gate_may_log())
		log_warnx("%s: TLS handshake failed: %s", peer, why);
}

/* What is not read for now says nothing of its end. */
static int
has_left(const struct conn *c)
{
	struct pollfd p = {.fd = bufferevent_getfd(c->bev), .events = POLLRDHUP};

	return c->r.ev != NULL && c->r.leave_ends &&
	       (c->paused || evbuffer_get_length(c->raw) > RAW_HIGH) && poll(&p, 1, 0) == 1;
}

/* Whether the client has used up its time, or gone. */
static int
is_late(struct conn *c)
{
	if (has_left(c))
		return 1;
	if (gate_unsent(c) > 0 && tick - c->out_since > STALL_SECONDS)
		return 1;
	switch (c->state) {
	case GATE_HEAD:
		if (gate_unsent(c) > 0)
			return 0;
		if (c->ssl != NULL && !c->handshaken)
			return tick - c->since > TLS_HANDSHAKE_SECONDS;
		return tick - c->since >
		       (evbuffer_get_length(c->raw) > 0 ? HEAD_SECONDS : IDLE_SECONDS);
	case GATE_BODY:
		if (!c->accepted || c->paused || c->r.slow_body) {
			c->rate_since++;
			return 0;
		}
		if (tick - c->rate_since < RATE_SECONDS)
			return 0;
		if (c->got - c->rate_got < RATE_BYTES)
			return 1;
		c->rate_since = tick;
		c->rate_got = c->got;
		return 0;
	case GATE_CLOSING:
		if (!c->shut) /* over TLS the last word too must find room in the socket */
			return gate_unsent(c) == 0 && tick - c->out_since > STALL_SECONDS;
		return tick - c->since > LINGER_SECONDS;
	default:
		return 0;
	}
}

/* What a client does not read would stay in the kernel after the close, so that is a reset. */
static void
end_late(struct conn *c)
{
	static const struct linger reset = {.l_onoff = 1};

	if (gate_unsent(c) > 0)
		setsockopt(bufferevent_getfd(c->bev), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	gate_doom(c);
}

/* What many needed at a time stays with malloc, in pieces: their pages go back to the kernel. */
static void
trim_memory(void)
{
	if ((tick % TRIM_SECONDS == 0 || nconns == 0) && mallinfo2().fordblks > TRIM_ABOVE)
		malloc_trim(0);
}

static void
on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct conn *c;

	(void)fd;
	(void)what;
	(void)arg;
	tick++;
	refusals = 0;
	for (c = TAILQ_FIRST(&conns); c != NULL; c = TAILQ_NEXT(c, entry)) {
		if (is_late(c))
			end_late(c);
	}
	trim_memory();
	if (gate_peer_tick() == 0 && nconns == 0)
		event_del(ticker);
}

/* Whether nobody with a key is served on it: between requests, at its end, about what is open to
 * all; or its client has closed its side, and what it began goes on without it. */
static int
may_go(const struct conn *c)
{
	if (c->doomed || c->evcon == NULL)
		return 0;
	return c->state == GATE_HEAD || c->state == GATE_CLOSING || c->r.route == NULL ||
	       c->r.route->access != ACCESS_KEY || (c->eof && c->r.goes_on);
}

static void
rest(long ms)
{
	struct timeval wait = {0, ms * 1000};

	evconnlistener_disable(listener);
	event_add(again, &wait);
}

void
gate_add(struct conn *c)
{
	static const struct timeval second = {1, 0};

	metrics_count(COUNT_CONNECTIONS, 1);
	TAILQ_INSERT_TAIL(&conns, c, entry);
	if (nconns++ == 0)
		event_add(ticker, &second);
	if (++in_row >= ACCEPT_STEP)
		rest(0);
}

void
gate_limit(struct conn *newcomer)
{
	struct conn *c;

	if (places_taken() < apid.conns_max)
		return;
	if ((c = places_victim(newcomer, may_go)) != NULL)
		gate_doom(c);
	else
		rest(200);
}

void
gate_remove(struct conn *c)
{
	TAILQ_REMOVE(&conns, c, entry);
	places_give(c);
	nconns--;
	if (when_down != NULL && nconns == 0)
		when_down();
}

static void
on_again(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
	if (when_down != NULL)
		return;
	in_row = 0;
	if (places_taken() >= apid.conns_max && places_victim(NULL, may_go) == NULL)
		rest(200);
	else
		evconnlistener_enable(listener);
}

/* EINVAL: the parent has not opened the port yet. Out of descriptors: a short rest, or accept would
 * spin. */
static void
on_accept_error(struct evconnlistener *l, void *arg)
{
	static uint32_t last;
	int error = errno;

	(void)l;
	(void)arg;
	if (error != EINVAL && last != tick + 1) {
		last = tick + 1;
		errno = error;
		log_warn("accept");
	}
	rest(error == EINVAL ? 10 : 200);
}

void
gate_going_down(void (*done)(void))
{
	struct conn *c, *next;

	when_down = done;
	evconnlistener_disable(listener);
	gate_metrics_close();
	event_del(again);
	if (nconns == 0) {
		done();
		return;
	}
	for (c = TAILQ_FIRST(&conns); c != NULL; c = next) {
		next = TAILQ_NEXT(c, entry);
		c->r.head.close = 1;
		if (c->r.ev == NULL && gate_unsent(c) == 0)
			gate_doom(c);
		else if (c->r.going_down != NULL)
			c->r.going_down(&c->r);
		else if (c->r.ev != NULL && !c->r.started)
			req_error_text(&c->r, 503, 1, "the server is going down", 24);
	}
}

struct evhttp *
gate_http_new(struct event_base *base, void *metrics)
{
	struct evhttp *http = evhttp_new(base);

	if (http == NULL)
		fatalx("evhttp_new");
	evhttp_set_allowed_methods(http, EVHTTP_REQ_GET | EVHTTP_REQ_HEAD);
	evhttp_set_max_headers_size(http, 256);
	evhttp_set_max_body_size(http, 0);
	evhttp_set_default_content_type(http, NULL);
	gate_attach_http(http, metrics);
	return http;
}

void
gate_open(void)
{
	if (when_down == NULL && evconnlistener_enable(listener) == -1)
		fatalx("listener");
}

void
gate_init(struct event_base *base, int fd)
{
	const int unsent = UNSENT_MAX;
	struct evhttp *http;

	/* Accepted connections inherit it. With more in the socket a slow reader's progress would
	 * not be seen. */
	if (setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof(unsent)) == -1)
		log_warn("TCP_NOTSENT_LOWAT");
	http = gate_http_new(base, NULL);
	ticker = event_new(base, -1, EV_PERSIST, on_tick, NULL);
	again = evtimer_new(base, on_again, NULL);
	listener = evconnlistener_new(base, NULL, NULL,
	    LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC | LEV_OPT_DISABLED, 0, fd);
	if (evutil_make_socket_nonblocking(fd) == -1 || ticker == NULL || again == NULL ||
	    listener == NULL || evhttp_bind_listener(http, listener) == NULL)
		fatalx("listener");
	evconnlistener_set_error_cb(listener, on_accept_error);
}
