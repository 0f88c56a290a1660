/* Data sockets on the event loop (data.h). */
#include <errno.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "apid/apid.h"
#include "apid/data.h"
#include "common/log.h"
#include "common/record.h"

#define READ_MAX (128 * 1024)
#define IOVS 16

struct data {
	const struct data_ops *ops;
	void *arg;
	int fd;
	struct event *readable, *writable;
	struct evbuffer *out;
	uint8_t *left; /* the start of a record that is not complete */
	size_t left_n;
	uint8_t paused;
	uint8_t full;  /* the socket did not take all: drained() is due */
	uint8_t depth; /* inside our own callbacks */
	uint8_t dead;
};

static uint8_t scratch[RECORD_HEADER + RECORD_MAX + READ_MAX];

static void
release(struct data *d)
{
	event_free(d->readable);
	event_free(d->writable);
	close(d->fd);
	evbuffer_free(d->out);
	free(d->left);
	free(d);
}

void
data_free(struct data *d)
{
	if (d == NULL)
		return;
	d->dead = 1;
	if (d->depth == 0)
		release(d);
}

/* Keeps d alive over a callback. */
static void
enter(struct data *d)
{
	d->depth++;
}

/* Returns -1 when d is no more. */
static int
leave(struct data *d)
{
	d->depth--;
	if (!d->dead)
		return 0;
	if (d->depth == 0)
		release(d);
	return -1;
}

static void
finish(struct data *d)
{
	event_del(d->readable);
	event_del(d->writable);
	enter(d);
	d->ops->end(d->arg);
	leave(d);
}

/* Hands on the complete records of scratch[0..n), keeps the rest. Returns -1 when d is no more or
 * at its end. */
static int
dispatch(struct data *d, size_t n)
{
	const uint8_t *p;
	size_t at = 0, len;
	int64_t whole = 0;
	uint8_t type;

	enter(d);
	while (!d->dead && !d->paused && at < n) {
		whole = record_parse(scratch + at, n - at, RECORD_MAX, &type, &p, &len);
		if (whole <= 0)
			break;
		at += (size_t)whole;
		d->ops->record(d->arg, type, p, len);
	}
	if (leave(d) == -1)
		return -1;
	if (whole < 0) {
		if (d->ops->malformed != NULL)
			d->ops->malformed(d->arg);
		finish(d);
		return -1;
	}
	if (at < n) {
		if ((d->left = malloc(n - at)) == NULL)
			fatal("malloc");
		memcpy(d->left, scratch + at, n - at);
		d->left_n = n - at;
	}
	return 0;
}

/* Brings what was left over back into scratch. */
static size_t
take_left(struct data *d)
{
	size_t n = d->left_n;

	if (n > 0)
		memcpy(scratch, d->left, n);
	free(d->left);
	d->left = NULL;
	d->left_n = 0;
	return n;
}

static void
on_readable(int fd, short what, void *arg)
{
	struct data *d = arg;
	size_t n = take_left(d);
	ssize_t got;

	(void)what;
	got = recv(fd, scratch + n, sizeof(scratch) - n, MSG_DONTWAIT);
	if (got == -1 && (errno == EAGAIN || errno == EINTR))
		got = 0;
	else if (got <= 0) {
		/* Records that a pause left over come before the end. */
		if (dispatch(d, n) == 0 && !d->paused)
			finish(d);
		return;
	}
	dispatch(d, n + (size_t)got);
}

static void
flush(struct data *d)
{
	struct evbuffer_iovec iov[IOVS];
	struct msghdr msg = {0};
	ssize_t sent;
	int n;

	while (evbuffer_get_length(d->out) > 0) {
		n = evbuffer_peek(d->out, -1, NULL, iov, IOVS);
		msg.msg_iov = (struct iovec *)iov;
		msg.msg_iovlen = n < IOVS ? (size_t)n : IOVS;
		sent = sendmsg(d->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (sent == -1 && errno == EINTR)
			continue;
		if (sent == -1 && (errno == EAGAIN || errno == ENOBUFS)) {
			event_add(d->writable, NULL);
			return;
		}
		if (sent == -1) {
			/* Nobody reads any more; the end of file on our side will tell why. */
			evbuffer_drain(d->out, evbuffer_get_length(d->out));
			break;
		}
		evbuffer_drain(d->out, (size_t)sent);
	}
	if (!d->full)
		event_del(d->writable);
}

static void
on_writable(int fd, short what, void *arg)
{
	struct data *d = arg;

	(void)fd;
	(void)what;
	flush(d);
	if (d->full && evbuffer_get_length(d->out) == 0) {
		d->full = 0;
		event_del(d->writable);
		if (d->ops->drained != NULL) {
			enter(d);
			d->ops->drained(d->arg);
			leave(d);
		}
	}
}

struct data *
data_new(const struct data_ops *ops, void *arg, int *other)
{
	struct data *d;
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == -1) {
		log_warn("socketpair");
		return NULL;
	}
	if ((d = calloc(1, sizeof(*d))) == NULL)
		fatal("calloc");
	d->ops = ops;
	d->arg = arg;
	d->fd = fds[0];
	*other = fds[1];
	d->out = buffer_new();
	d->readable = event_new(apid.base, d->fd, EV_READ | EV_PERSIST, on_readable, d);
	d->writable = event_new(apid.base, d->fd, EV_WRITE | EV_PERSIST, on_writable, d);
	if (d->readable == NULL || d->writable == NULL)
		fatal("event_new");
	event_add(d->readable, NULL);
	return d;
}

void
data_record_header(struct evbuffer *out, uint8_t type, size_t n)
{
	uint8_t header[RECORD_HEADER];

	record_header(header, type, (uint32_t)n);
	evbuffer_add(out, header, sizeof(header));
}

static void
sent(struct data *d)
{
	flush(d);
	if (evbuffer_get_length(d->out) > 0)
		d->full = 1;
}

void
data_send(struct data *d, uint8_t type, const void *p, size_t n)
{
	data_record_header(d->out, type, n);
	evbuffer_add(d->out, p, n);
	sent(d);
}

void
data_move(struct data *d, uint8_t type, struct evbuffer *src, size_t n)
{
	data_record_header(d->out, type, n);
	evbuffer_remove_buffer(src, d->out, n);
	sent(d);
}

size_t
data_unsent(const struct data *d)
{
	return evbuffer_get_length(d->out);
}

void
data_pause(struct data *d, int on)
{
	if (d->paused == on)
		return;
	d->paused = on != 0;
	if (on) {
		event_del(d->readable);
		return;
	}
	event_add(d->readable, NULL);
	if (d->left_n > 0)
		event_active(d->readable, EV_READ, 1); /* there may be whole records among it */
}

int
data_prewritten(struct evbuffer *out)
{
	int fds[2];
	const uint8_t *p;
	size_t n = evbuffer_get_length(out);

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == -1) {
		log_warn("socketpair");
		return -1;
	}
	p = evbuffer_pullup(out, -1);
	if (send(fds[0], p, n, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)n) {
		log_warn("send");
		close(fds[1]);
		fds[1] = -1;
	}
	close(fds[0]);
	return fds[1];
}
