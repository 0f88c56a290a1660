/* The state machine of a connection (gate.h). What runs in callbacks of libevent only notes; the
 * kick acts. */
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/http_struct.h>
#include <event2/keyvalq_struct.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "apid/apid.h"
#include "apid/gate.h"
#include "apid/gate_listen.h"
#include "apid/gate_tls.h"
#include "apid/metrics.h"
#include "apid/tls.h"
#include "common/log.h"

#define READ_STEP 4096          /* what libevent reads at most at a time */
#define WRITE_STEP (256 * 1024) /* and what it may write */

static struct conn **by_fd; /* evhttp has no pointer for us */

void
gate_kick(struct conn *c)
{
	event_active(c->kick, EV_TIMEOUT, 1);
}

void
gate_doom(struct conn *c)
{
	c->doomed = 1;
	gate_kick(c);
}

size_t
gate_unsent(const struct conn *c)
{
	return evbuffer_get_length(bufferevent_get_output(c->bev));
}

/* Reads when there is room for it. */
void
gate_flow(struct conn *c)
{
	if (c->eof || (c->state != GATE_CLOSING && evbuffer_get_length(c->raw) > RAW_HIGH) ||
	    (c->state == GATE_BODY && c->paused))
		bufferevent_disable(c->bev, EV_READ);
	else
		bufferevent_enable(c->bev, EV_READ);
}

/* The end of the client's side, or of the connection. evcon is evhttp's argument of all callbacks.
 */
static void
on_event(struct bufferevent *bev, short what, void *evcon)
{
	evutil_socket_t fd = bufferevent_getfd(bev);
	struct conn *c = fd >= 0 && fd < (int)apid.nofile ? by_fd[fd] : NULL;

	if (c == NULL || c->bev != bev)
		fatalx("event on an unknown connection");
	if (c->ssl != NULL) {
		gate_tls_event(c, what);
		return;
	}
	if ((what & (BEV_EVENT_EOF | BEV_EVENT_READING)) == (BEV_EVENT_EOF | BEV_EVENT_READING) &&
	    (c->state != GATE_BODY || c->r.started) && !(c->r.ev != NULL && c->r.leave_ends)) {
		c->eof = 1;
		bufferevent_disable(bev, EV_READ);
		if (c->state == GATE_CLOSING)
			gate_kick(c);
		return;
	}
	evhttp_connection_free(evcon);
}

/* Over TLS libevent tells later that all is written, and more may have been added since: then
 * evhttp must not take it for the end of its answer. */
static void
on_written(struct bufferevent *bev, void *evcon)
{
	struct conn *c = by_fd[bufferevent_getfd(bev)];

	if (gate_unsent(c) == 0)
		c->written(bev, evcon);
}

static void
take_callbacks(struct conn *c)
{
	bufferevent_data_cb on_read, on_write;
	bufferevent_event_cb old;
	void *arg;

	bufferevent_getcb(c->bev, &on_read, &on_write, &old, &arg);
	if (c->ssl != NULL && on_write != NULL && on_write != on_written) {
		c->written = on_write;
		on_write = on_written;
	}
	bufferevent_setcb(c->bev, on_read, on_write, on_event, arg);
}

/* Writing past evhttp: its write callback must not fire, it would end a request that it does not
 * know. */
void
gate_write_raw(struct conn *c, const char *p, size_t n)
{
	bufferevent_data_cb on_read, on_write;
	bufferevent_event_cb old;
	void *arg;

	bufferevent_getcb(c->bev, &on_read, &on_write, &old, &arg);
	bufferevent_setcb(c->bev, NULL, NULL, on_event, arg);
	evbuffer_add(bufferevent_get_output(c->bev), p, n);
	bufferevent_enable(c->bev, EV_WRITE);
}

void
gate_sent(struct conn *c)
{
	if (c->r.ev == NULL) /* over already */
		return;
	take_callbacks(c);
	if (c->ssl != NULL)
		gate_tls_gather(c);
	gate_flow(c);
}

/* libevent reads 4 KiB at a time. Of a body that somebody takes, what more lies in the socket is
 * read at once; its end, or an error, shows again at the next read. */
static void
read_more(struct conn *c)
{
	struct evbuffer_iovec room;
	size_t most = RAW_HIGH - evbuffer_get_length(c->raw);
	ssize_t n;

	if (evbuffer_reserve_space(c->raw, (ev_ssize_t)most, &room, 1) != 1)
		fatal("evbuffer");
	n = recv(c->fd, room.iov_base, most, MSG_DONTWAIT);
	room.iov_len = n > 0 ? (size_t)n : 0;
	metrics_count(COUNT_RECEIVED, room.iov_len);
	evbuffer_commit_space(c->raw, &room, 1);
}

static void
on_input(struct evbuffer *in, const struct evbuffer_cb_info *info, void *arg)
{
	struct conn *c = arg;

	if (c->busy || info->n_added == 0)
		return;
	metrics_count(COUNT_RECEIVED, info->n_added);
	c->busy = 1;
	if (c->state == GATE_HEAD && evbuffer_get_length(c->raw) == 0)
		c->since = gate_tick();
	evbuffer_remove_buffer(in, c->raw, evbuffer_get_length(in));
	c->busy = 0;
	if (c->ssl == NULL && c->state == GATE_BODY && c->accepted && !c->paused &&
	    info->n_added >= READ_STEP && evbuffer_get_length(c->raw) < RAW_HIGH)
		read_more(c);
	if (c->state == GATE_CLOSING)
		evbuffer_drain(c->raw, evbuffer_get_length(c->raw));
	else if (c->state == GATE_HEAD && c->ssl == NULL)
		gate_run_head(c);
	else if (c->state == GATE_HEAD || c->state == GATE_BODY)
		gate_kick(c); /* over TLS more of the same read may follow */
	if (c->state != GATE_CLOSING && evbuffer_get_length(c->raw) > RAW_HIGH)
		bufferevent_disable(c->bev, EV_READ);
}

static void
on_output(struct evbuffer *out, const struct evbuffer_cb_info *info, void *arg)
{
	struct conn *c = arg;
	size_t n = evbuffer_get_length(out);

	if (info->n_deleted > 0 || info->orig_size == 0)
		c->out_since = gate_tick();
	if (info->n_deleted == 0)
		return;
	metrics_count(COUNT_SENT, info->n_deleted);
	if (c->r.drained != NULL && n < STREAM_LOW) {
		c->tell_drained = 1;
		gate_kick(c);
	}
	if (n == 0 && c->state == GATE_CLOSING)
		gate_kick(c);
}

static void
conn_free(struct conn *c)
{
	if (c->fd >= 0 && c->fd < (int)apid.nofile && by_fd[c->fd] == c)
		by_fd[c->fd] = NULL;
	evbuffer_remove_cb(bufferevent_get_input(c->bev), on_input, c);
	evbuffer_remove_cb(bufferevent_get_output(c->bev), on_output, c);
	event_free(c->kick);
	evbuffer_free(c->raw);
	bufferevent_decref(c->bev);
	free(c->text);
	gate_remove(c);
	free(c);
}

/* evhttp frees the connection: the only end of a conn. A request that it no longer holds is ours to
 * free. */
static void
on_closed(struct evhttp_connection *evcon, void *arg)
{
	struct conn *c = arg;
	struct evhttp_request *ev = c->r.ev;

	(void)evcon;
	if (ev != NULL) {
		evhttp_request_set_on_complete_cb(ev, NULL, NULL);
		c->r.ev = NULL;
		req_over(&c->r);
		if (evhttp_request_get_connection(ev) == NULL)
			evhttp_request_free(ev);
	}
	conn_free(c);
}

/* Every byte of the answer is out. evhttp would close in a way that can lose it: the gate does that
 * itself. */
static void
on_complete(struct evhttp_request *ev, void *arg)
{
	struct conn *c = arg;
	int closing = c->r.head.close || c->state == GATE_BODY;

	evhttp_remove_header(evhttp_request_get_output_headers(ev), "Connection");
	evhttp_remove_header(evhttp_request_get_input_headers(ev), "Connection");
	evhttp_add_header(evhttp_request_get_input_headers(ev), "Connection", "keep-alive");
	c->r.ev = NULL;
	req_over(&c->r);
	c->state = closing ? GATE_CLOSING : GATE_HEAD;
	c->since = gate_tick();
	gate_kick(c);
}

/* evhttp has read its constant line: the request begins. */
static void
on_request(struct evhttp_request *ev, void *arg)
{
	struct bufferevent *bev =
	    evhttp_connection_get_bufferevent(evhttp_request_get_connection(ev));
	evutil_socket_t fd = bufferevent_getfd(bev);
	struct conn *c = fd >= 0 && fd < (int)apid.nofile ? by_fd[fd] : NULL;
	bufferevent_data_cb on_read, on_write;
	bufferevent_event_cb old;
	void *evcon;

	(void)arg;
	if (c == NULL || c->bev != bev || c->r.ev != NULL)
		fatalx("request on an unknown connection");
	c->r.conn = c;
	c->r.ev = ev;
	evhttp_request_set_on_complete_cb(ev, on_complete, c);
	bufferevent_getcb(bev, &on_read, &on_write, &old, &evcon);
	bufferevent_setcb(bev, NULL, NULL, on_event, evcon);
	gate_flow(c);
	req_begin(&c->r);
}

/* After the accept: evhttp has made its own object for the connection by now, or has given up.
 * Returns -1 then, and when its address has too many. */
static int
attach(struct conn *c)
{
	bufferevent_data_cb on_read, on_write;
	bufferevent_event_cb old;
	void *evcon;

	bufferevent_getcb(c->bev, &on_read, &on_write, &old, &evcon);
	c->fd = bufferevent_getfd(c->bev);
	if (evcon == NULL || c->fd < 0 || c->fd >= (int)apid.nofile) {
		conn_free(c);
		return -1;
	}
	c->evcon = evcon;
	if (evhttp_connection_get_bufferevent(c->evcon) != c->bev)
		fatalx("evhttp mixed up its connections");
	by_fd[c->fd] = c;
	evhttp_connection_set_closecb(c->evcon, on_closed, c);
	if (gate_admit(c, evhttp_connection_get_addr(c->evcon)) == -1) {
		evhttp_connection_free(c->evcon);
		return -1;
	}
	if (c->ssl != NULL && c->proxied)
		gate_tls_proxied(c);
	gate_limit(c);
	return 0;
}

/* The answer is written: close our side, let the client read it, then let go. */
static void
run_closing(struct conn *c)
{
	static const struct timeval soon = {0, 50000};

	if (gate_unsent(c) > 0) {
		bufferevent_enable(c->bev, EV_WRITE);
		gate_flow(c);
		return;
	}
	if (!c->shut) {
		if (c->ssl != NULL && gate_tls_close(c) == -1) {
			evtimer_add(c->kick, &soon);
			return;
		}
		c->shut = 1;
		c->since = gate_tick();
		evbuffer_drain(c->raw, evbuffer_get_length(c->raw));
		shutdown(c->fd, SHUT_WR);
		take_callbacks(c);
	}
	if (c->eof)
		evhttp_connection_free(c->evcon);
	else
		gate_flow(c);
}

static void
run_idle(struct conn *c)
{
	if (c->eof)
		bufferevent_disable(c->bev, EV_READ);
	if (evbuffer_get_length(c->raw) > 0)
		gate_run_head(c);
	if (c->state == GATE_CLOSING)
		return;
	if (evbuffer_get_length(bufferevent_get_input(c->bev)) > 0) {
		bufferevent_trigger(c->bev, EV_READ, 0);
	} else if (c->eof || gate_is_going_down()) {
		gate_doom(c);
	} else {
		gate_flow(c);
	}
}

/* Over TLS the client's end is noted when it is read, and what came with it is served first: only
 * then it is the end of who waits for nothing, or of a body that is not whole. */
static void
run_request(struct conn *c)
{
	if (c->state == GATE_BODY)
		gate_run_body(c);
	if (c->ssl != NULL && c->eof && c->r.ev != NULL &&
	    (c->r.leave_ends ||
		(c->state == GATE_BODY && !c->r.started && c->accepted && !c->paused)))
		evhttp_connection_free(c->evcon);
}

static void
on_kick(evutil_socket_t fd, short what, void *arg)
{
	struct conn *c = arg;

	(void)fd;
	(void)what;
	if (c->evcon == NULL && attach(c) == -1)
		return;
	if (c->doomed) {
		if (c->ssl != NULL && c->r.ev == NULL && gate_unsent(c) == 0)
			gate_tls_close(c);
		evhttp_connection_free(c->evcon);
		return;
	}
	if (c->ssl != NULL)
		take_callbacks(c);
	if (c->tell_drained) {
		c->tell_drained = 0;
		if (c->r.ev != NULL && c->r.drained != NULL)
			c->r.drained(&c->r);
	}
	if (c->state == GATE_CLOSING)
		run_closing(c);
	else if (c->state == GATE_HEAD)
		run_idle(c);
	else if (c->r.ev != NULL)
		run_request(c);
}

static struct bufferevent *
new_connection(struct event_base *base, void *metrics)
{
	struct conn *c = calloc(1, sizeof(*c));

	if (c == NULL || (c->raw = evbuffer_new()) == NULL ||
	    (c->kick = evtimer_new(base, on_kick, c)) == NULL ||
	    (c->bev = tls_is_on() && metrics == NULL
			  ? gate_tls_new(base, c)
			  : bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE)) == NULL)
		fatal("new connection");
	bufferevent_incref(c->bev);
	bufferevent_set_max_single_write(c->bev, WRITE_STEP);
	c->fd = -1;
	c->metrics = metrics != NULL;
	c->since = c->out_since = gate_tick();
	evbuffer_add_cb(bufferevent_get_input(c->bev), on_input, c);
	evbuffer_add_cb(bufferevent_get_output(c->bev), on_output, c);
	gate_add(c);
	gate_kick(c);
	return c->bev;
}

void
gate_attach_http(struct evhttp *http, void *metrics)
{
	if (by_fd == NULL && (by_fd = calloc(apid.nofile, sizeof(struct conn *))) == NULL)
		fatal("calloc");
	evhttp_set_bevcb(http, new_connection, metrics);
	evhttp_set_gencb(http, on_request, NULL);
}
