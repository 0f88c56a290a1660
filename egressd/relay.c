/*
 * Copies bytes both ways. They go through one buffer that all connections share; only what the
 * other end does not take now is kept, and then nothing more is read from this one. So an idle
 * connection has no buffer, and a stalled one at most CHUNK bytes each way.
 */
#include "egressd/dial.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/log.h"

#define CHUNK 65536
#define CHUNK_SHORT 4096               /* once so much waits in buffers: */
#define HELD_HIGH (UINT64_C(64) << 20) /* bytes */
#define LOOK_US INT64_C(10000000)      /* for the first request to come whole */
#define REFUSE_US INT64_C(2000000)     /* for a client to read why it is refused */

static uint8_t shared[CHUNK];

int
relay_inside_gone(const struct dial *d)
{
	struct pollfd pfd = {.fd = d->inside};

	return !d->in.shut && poll(&pfd, 1, 0) == 1 && (pfd.revents & (POLLHUP | POLLERR)) != 0;
}

static void
want(struct event *ev, int on)
{
	if (on ? event_add(ev, NULL) == -1 : event_del(ev) == -1)
		fatalx("relay: event");
}

static void
held_free(struct flow *f)
{
	if (f->held != NULL)
		egressd.held -= f->held_size;
	free(f->held);
	f->held = NULL;
	f->held_at = f->held_len = f->held_size = 0;
}

static int
held_new(struct flow *f, size_t size)
{
	if ((f->held = malloc(size)) == NULL)
		return -1;
	f->held_size = size;
	egressd.held += size;
	return 0;
}

/* What an error on an end says: the far one reset it, or the near one has gone. */
static enum reason
broken(const struct flow *f, int fd)
{
	return fd == f->dial->outside ? REASON_RESET : REASON_GONE;
}

/* Sends what it can of p[0..n). Returns how many bytes, or -1 when d is over. */
static ssize_t
send_some(struct flow *f, const uint8_t *p, size_t n)
{
	ssize_t sent = send(f->to, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (sent == -1 && errno != EAGAIN && errno != EINTR && errno != ENOBUFS) {
		dial_end(f->dial, broken(f, f->to));
		return -1;
	}
	if (sent > 0)
		f->bytes += sent;
	return sent > 0 ? sent : 0;
}

/* from has ended and all was sent: to is told. d may be over then. */
static void
finish(struct flow *f)
{
	struct dial *d = f->dial;

	/* Not the end of what it says, but of all. */
	if (f == &d->out && relay_inside_gone(d)) {
		dial_end(d, REASON_GONE);
		return;
	}
	shutdown(f->to, SHUT_WR);
	f->shut = 1;
	if (d->in.shut && d->out.shut)
		dial_end(d, REASON_NONE);
}

static void
on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct flow *f = arg;
	ssize_t sent = send_some(f, f->held + f->held_at, f->held_len);

	(void)fd;
	(void)what;
	if (sent == -1)
		return;
	f->dial->active = egressd_now();
	f->held_at += (size_t)sent;
	f->held_len -= (size_t)sent;
	if (f->held_len > 0)
		return;
	held_free(f);
	want(&f->writable, 0);
	if (f->ended)
		finish(f);
	else
		want(&f->readable, 1);
}

/* Keeps what was not sent, and reads no more until it is. */
static void
hold(struct flow *f, const uint8_t *p, size_t n)
{
	if (held_new(f, n) == -1) {
		dial_end(f->dial, REASON_NO_MEMORY);
		return;
	}
	memcpy(f->held, p, n);
	f->held_len = n;
	want(&f->readable, 0);
	want(&f->writable, 1);
}

/*
 * Takes up to room bytes into p, within the sandbox's limit. Returns how many; 0: nothing now, or
 * it has ended (f->ended); -1: d is over.
 */
static ssize_t
receive(struct flow *f, uint8_t *p, size_t room)
{
	struct dial *d = f->dial;
	int64_t left = box_left(d->box);
	ssize_t n;

	if (left <= 0) {
		dial_end(d, REASON_BYTES);
		return -1;
	}
	n = recv(f->from, p, (int64_t)room < left ? room : (size_t)left, MSG_DONTWAIT);
	if (n == -1 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n == -1) {
		dial_end(d, broken(f, f->from));
		return -1;
	}
	f->ended = n == 0;
	d->box->bytes += n;
	d->active = egressd_now();
	return n;
}

/* The client learns why, in the words of its protocol, if nothing was said to it before: -1 then.
 */
static int
say_refused(struct dial *d, enum reason reason, int tls)
{
	/* A fatal alert: no such name, or what came cannot be read. */
	uint8_t alert[] = {21, 3, 1, 0, 2, 2, reason == REASON_OTHER_SNI ? 112 : 50};
	char why[DIAL_TEXT_MAX], head[DIAL_TEXT_MAX + 256];
	int n = reason_text(reason, "", "", why);

	if (d->in.bytes > 0 || d->in.held_len > 0)
		return -1;
	if (tls) {
		send(d->inside, alert, sizeof(alert), MSG_DONTWAIT | MSG_NOSIGNAL);
		return 0;
	}
	n = snprintf(head, sizeof(head),
	    "HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\n"
	    "Connection: close\r\n\r\negress refused: %s\n",
	    sizeof("egress refused: \n") - 1 + (size_t)n, why);
	send(d->inside, head, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
	return 0;
}

/*
 * Nothing goes out any more. Closed at once, with bytes unread, the end inside would be reset, and
 * that would overtake what it was told: so it is closed when the client has gone, or time is over.
 */
static void
refuse(struct dial *d, enum reason why)
{
	struct flow *f = &d->out;

	if (say_refused(d, why, f->held[0] < ' ' || f->held[0] >= 0x80) == -1 || f->ended) {
		dial_end(d, why);
		return;
	}
	want(&d->in.readable, 0);
	held_free(f);
	dial_cut(d);
	shutdown(d->inside, SHUT_WR);
	d->in.shut = 1;
	d->state = DIAL_REFUSING;
	d->last = why;
	d->step_until = egressd_now() + REFUSE_US;
	dial_schedule(d);
}

static void
refused_read(struct dial *d)
{
	ssize_t n = recv(d->inside, shared, sizeof(shared), MSG_DONTWAIT);

	if (n == 0 || (n == -1 && errno != EAGAIN && errno != EINTR))
		dial_end(d, d->last);
}

/* The first bytes are good: they go on, and no others are looked at. */
static void
look_done(struct dial *d)
{
	struct flow *f = &d->out;

	d->look = LOOK_NOT;
	d->look_until = 0;
	if (f->held != NULL) {
		want(&f->readable, 0);
		want(&f->writable, 1);
	} else if (f->ended)
		finish(f);
}

/* Gathers the first bytes until they can be judged. */
static void
look_read(struct dial *d)
{
	struct flow *f = &d->out;
	enum look_result r = LOOK_MORE;
	enum reason why = REASON_SLOW_START;
	ssize_t n;

	if (f->held == NULL && held_new(f, LOOK_MAX) == -1) {
		dial_end(d, REASON_NO_MEMORY);
		return;
	}
	n = receive(f, f->held + f->held_len, f->held_size - f->held_len);
	if (n == -1)
		return;
	f->held_len += (size_t)n;
	if (f->held_len == 0) {
		held_free(f);
		if (f->ended)
			look_done(d); /* it has nothing to say */
		return;
	}
	if (n > 0)
		r = look_at(d->look, f->held, f->held_len, &d->host, d->port, &why);
	if (r == LOOK_PASS)
		look_done(d);
	else if (r == LOOK_REFUSE || f->ended)
		refuse(d, why);
	else if (d->look_until == 0) {
		d->look_until = egressd_now() + LOOK_US;
		dial_schedule(d);
	}
}

static void
on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct flow *f = arg;
	ssize_t n, sent;

	(void)fd;
	(void)what;
	if (f->dial->state == DIAL_REFUSING) {
		refused_read(f->dial);
		return;
	}
	if (f == &f->dial->out && f->dial->look != LOOK_NOT) {
		look_read(f->dial);
		return;
	}
	n = receive(f, shared, egressd.held > HELD_HIGH ? CHUNK_SHORT : CHUNK);
	if (n > 0) {
		sent = send_some(f, shared, (size_t)n);
		if (sent >= 0 && sent < n)
			hold(f, shared + sent, (size_t)(n - sent));
	} else if (n == 0 && f->ended) {
		want(&f->readable, 0);
		finish(f);
	}
}

static void
flow_start(struct flow *f, struct dial *d, int from, int to)
{
	f->dial = d;
	f->from = from;
	f->to = to;
	event_assign(&f->readable, egressd.base, from, EV_READ | EV_PERSIST, on_readable, f);
	event_assign(&f->writable, egressd.base, to, EV_WRITE | EV_PERSIST, on_writable, f);
	want(&f->readable, 1);
}

void
relay_start(struct dial *d)
{
	d->state = DIAL_RELAYING;
	d->active = egressd_now();
	flow_start(&d->out, d, d->inside, d->outside);
	flow_start(&d->in, d, d->outside, d->inside);
	dial_schedule(d);
}

static void
flow_free(struct flow *f)
{
	if (event_initialized(&f->readable)) {
		event_del(&f->readable);
		event_del(&f->writable);
	}
	held_free(f);
}

void
relay_free(struct dial *d)
{
	flow_free(&d->out);
	flow_free(&d->in);
}
