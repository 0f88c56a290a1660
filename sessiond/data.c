/* Our end of a data socket: reads records, writes records, keeps what the socket does not take. */
#include <sys/socket.h>
#include <sys/uio.h>

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "common/record.h"
#include "proto/data.h"
#include "sessiond/data.h"

#define DATA_READ_AHEAD 4096 /* read beyond the record that is waited for */
#define DATA_DIRECT_MIN 2048 /* smaller ones wait for the end of the batch, to share a call */

int
data_is_stream(int fd)
{
	int domain = 0, type = 0;
	socklen_t len = sizeof(int);

	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 && domain == AF_UNIX &&
	       getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_STREAM;
}

/*
 * Edge-triggered. By level, a socket that is not read for lack of credit would have to wait for
 * EV_CLOSED alone, which never comes when the peer leaves with bytes unread: epoll says EPOLLERR
 * then, and libevent calls that readable.
 */
void
data_open(struct data *d, struct event_base *base, int fd, event_callback_fn on_read,
    event_callback_fn on_write, void *arg)
{
	const short read_events = EV_READ | EV_CLOSED | EV_PERSIST | EV_ET;

	memset(d, 0, sizeof(*d));
	d->fd = fd;
	d->head = DATA_NO_HEAD;
	if (fd == -1)
		return;
	if (event_assign(&d->ev_read, base, fd, read_events, on_read, arg) == -1 ||
	    event_assign(&d->ev_write, base, fd, EV_WRITE | EV_ET, on_write, arg) == -1 ||
	    event_add(&d->ev_read, NULL) == -1)
		fatalx("data socket: event");
}

int
data_hangup(const struct data *d)
{
	struct pollfd p = {.fd = d->fd, .events = POLLRDHUP};

	return d->fd != -1 && poll(&p, 1, 0) == 1;
}

void
data_close(struct data *d)
{
	d->released += d->pending;
	d->pending = 0;
	buf_free(&d->in);
	buf_free(&d->out);
	d->taken = 0;
	d->head = DATA_NO_HEAD;
	if (d->fd == -1)
		return;
	event_del(&d->ev_read);
	event_del(&d->ev_write);
	close(d->fd);
	d->fd = -1;
}

void
data_deafen(struct data *d)
{
	d->released += d->pending;
	d->pending = 0;
	d->head = DATA_NO_HEAD;
	d->deaf = 1;
	buf_free(&d->out);
	event_del(&d->ev_write);
}

/* Bytes still missing of the record at the front, as far as its header tells. */
static size_t
data_missing(const struct data *d, size_t max)
{
	uint32_t len;

	if (buf_len(&d->in) < RECORD_HEADER)
		return 0;
	memcpy(&len, buf_data(&d->in), sizeof(len));
	if (len > max)
		return 0;
	return RECORD_HEADER + len - buf_len(&d->in);
}

enum data_got
data_next(struct data *d, size_t max, struct data_record *r)
{
	const uint8_t *p;
	size_t len, want;
	ssize_t n;
	int64_t got;

	for (;;) {
		got = record_parse(buf_data(&d->in), buf_len(&d->in), max, &r->type, &p, &len);
		if (got < 0)
			return DATA_BAD;
		if (got > 0) {
			r->p = p + d->taken;
			r->len = len - d->taken;
			return DATA_RECORD;
		}
		if (d->fd == -1)
			return DATA_EOF;
		want = data_missing(d, max) + DATA_READ_AHEAD;
		n = recv(d->fd, buf_room(&d->in, want), want, MSG_DONTWAIT);
		if (n == 0)
			return DATA_EOF;
		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1)
			return errno == EAGAIN ? DATA_AGAIN : DATA_EOF;
		buf_wrote(&d->in, (size_t)n);
	}
}

void
data_take(struct data *d, size_t n)
{
	uint32_t len;

	memcpy(&len, buf_data(&d->in), sizeof(len));
	d->taken += n;
	if (d->taken > len)
		fatalx("data socket: took more than there is");
	if (d->taken < len)
		return;
	buf_drop(&d->in, RECORD_HEADER + len);
	d->taken = 0;
}

/* Appends to the last record, if that is of the same type and none of it was sent. */
static int
data_join(struct data *d, uint8_t type, const void *p, size_t n)
{
	uint8_t *head;
	uint32_t len;

	if (d->head == DATA_NO_HEAD)
		return 0;
	head = buf_data(&d->out) + d->head;
	memcpy(&len, head, sizeof(len));
	if (head[4] != type || len + n > RECORD_MAX)
		return 0;
	buf_add(&d->out, p, n);
	record_header(buf_data(&d->out) + d->head, type, (uint32_t)(len + n));
	return 1;
}

/* Sends a record past the queue; returns how many bytes of {header, p[0..n)} the socket took. */
static size_t
data_direct(struct data *d, const uint8_t *header, const void *p, size_t n)
{
	struct iovec iov[2] = {
	    {.iov_base = (void *)(uintptr_t)header, .iov_len = RECORD_HEADER},
	    {.iov_base = (void *)(uintptr_t)p, .iov_len = n},
	};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
	ssize_t sent;

	sent = sendmsg(d->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	return sent == -1 ? 0 : (size_t)sent; /* an error shows again at the flush */
}

void
data_put(struct data *d, uint8_t type, const void *fixed, size_t fixed_len, const void *p, size_t n,
    int credited)
{
	uint8_t header[RECORD_HEADER];
	size_t sent = 0, body;

	if (d->fd == -1 || d->deaf) {
		if (credited)
			d->released += (uint32_t)n;
		return;
	}
	if (credited && data_join(d, type, p, n)) {
		d->pending += (uint32_t)n;
		return;
	}
	record_header(header, type, (uint32_t)(fixed_len + n));
	if (fixed_len == 0 && n >= DATA_DIRECT_MIN && buf_len(&d->out) == 0)
		sent = data_direct(d, header, p, n);
	body = sent > RECORD_HEADER ? sent - RECORD_HEADER : 0;
	if (credited) {
		d->released += (uint32_t)body;
		d->pending += (uint32_t)(n - body);
	}
	if (sent == RECORD_HEADER + n)
		return;
	d->head = credited && sent == 0 ? buf_len(&d->out) : DATA_NO_HEAD;
	if (sent < RECORD_HEADER)
		buf_add(&d->out, header + sent, RECORD_HEADER - sent);
	buf_add(&d->out, fixed, fixed_len);
	if (n > body)
		buf_add(&d->out, (const uint8_t *)p + body, n - body);
}

void
data_charge(struct data *d, uint32_t n)
{
	if (buf_len(&d->out) > 0)
		d->pending += n;
	else
		d->released += n;
}

/*
 * n bytes have left the queue. Credit goes back as the queue shrinks, in proportion: records are
 * longer than what was paid for them, and byte for byte the queue would grow while it is sent.
 */
static void
data_sent(struct data *d, size_t n)
{
	uint32_t give = (uint32_t)((uint64_t)d->pending * n / buf_len(&d->out));

	d->head = d->head == DATA_NO_HEAD || n > d->head ? DATA_NO_HEAD : d->head - n;
	buf_drop(&d->out, n);
	if (buf_len(&d->out) == 0)
		d->head = DATA_NO_HEAD;
	d->pending -= give;
	d->released += give;
}

int
data_flush(struct data *d)
{
	ssize_t n;

	if (d->fd == -1)
		return 0;
	while (buf_len(&d->out) > 0) {
		n = send(d->fd, buf_data(&d->out), buf_len(&d->out), MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1 && errno != EAGAIN)
			return -1;
		if (n == -1) {
			if (event_add(&d->ev_write, NULL) == -1)
				fatalx("data socket: event");
			return 0;
		}
		data_sent(d, (size_t)n);
	}
	if (d->finishing && !d->shut) {
		d->shut = 1;
		shutdown(d->fd, SHUT_WR);
	}
	return 0;
}

int
data_finish(struct data *d)
{
	d->finishing = 1;
	buf_free(&d->in);
	d->taken = 0;
	return data_flush(d);
}

int
data_discard(struct data *d)
{
	char scrap[16384];
	ssize_t n;
	int i;

	for (i = 0; i < 256; i++) {
		n = recv(d->fd, scrap, sizeof(scrap), MSG_DONTWAIT);
		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1 && errno == EAGAIN)
			return 0;
		if (n <= 0)
			return 1;
	}
	return 0;
}
