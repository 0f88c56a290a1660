/* The channel engine: packets, their gate, and a queue for what the socket does not take at once;
 * see chan.h. */
#include "common/chan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/log.h"

#define READ_MAX 64 /* packets per chan_readable(): nobody keeps the loop for himself */
#define SOCKET_BUFFER (4 * MSG_MAX)
#define CONTROL_FDS 8 /* room to see, and close, more descriptors than are allowed */

struct packet {
	STAILQ_ENTRY(packet) next;
	size_t len;
	int fd;
	uint8_t data[];
};

struct chan {
	int fd;
	int busy;     /* callbacks that are running */
	int freed;    /* chan_free() was called in one of them */
	int gone;     /* the peer closed its end, and the owner was told */
	int unsent;   /* enum chan_want, as last told */
	int detached; /* on_detach was called */
	int held;     /* nothing is read before the peer has read */
	enum peer self, other;
	const struct chan_proto *proto;
	chan_handler on_message;
	chan_gone on_gone;
	chan_want_write on_want_write;
	chan_detach on_detach;
	chan_breach on_breach;
	chan_hold on_hold;
	void *arg, *arg2;
	STAILQ_HEAD(packets, packet) queue;
	size_t packets, bytes;
};

union control {
	struct cmsghdr align;
	char space[CMSG_SPACE(CONTROL_FDS * sizeof(int))];
};

/*
 * What was received last, shared by all channels of the process, since a handler is done with its
 * message before another is read. The last byte is for the NUL behind the tail.
 */
static struct {
	struct msg_header header;
	uint8_t body[MSG_MAX - sizeof(struct msg_header) + 1];
} inbox __attribute__((aligned(16)));

/* A broken rule between our own programs. */
static void __attribute__((noreturn))
breach(const struct chan *c, enum peer from, uint32_t type, const char *reason)
{
	fatalx("channel %s: message %s (0x%04x) from %s: %s", c->proto->name,
	    chan_message_name(c->proto, type), (unsigned)type, chan_peer_name(from), reason);
}

struct chan *
chan_new(int fd, const struct chan_proto *proto, enum peer self, enum peer other,
    chan_handler handler, chan_gone gone, void *arg)
{
	struct chan *c = calloc(1, sizeof(*c));
	int size = SOCKET_BUFFER, flags;

	if (c == NULL) {
		close(fd);
		errno = ENOMEM;
		return NULL;
	}
	if ((flags = fcntl(fd, F_GETFL)) == -1 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) == -1 ||
	    fcntl(fd, F_SETFD, FD_CLOEXEC) == -1)
		fatal("channel %s: fcntl", proto->name);
	/* Only room: a system that gives less still takes a whole packet, since its own default is
	 * larger. */
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	c->fd = fd;
	c->proto = proto;
	c->self = self;
	c->other = other;
	c->on_message = handler;
	c->on_gone = gone;
	c->arg = arg;
	STAILQ_INIT(&c->queue);
	return c;
}

static void
drop_first(struct chan *c)
{
	struct packet *p = STAILQ_FIRST(&c->queue);

	STAILQ_REMOVE_HEAD(&c->queue, next);
	c->packets--;
	c->bytes -= p->len;
	if (p->fd != -1)
		close(p->fd);
	free(p);
}

static void
drop_queue(struct chan *c)
{
	while (!STAILQ_EMPTY(&c->queue))
		drop_first(c);
}

/* The event loop must forget the socket before it is closed. */
static void
detach(struct chan *c)
{
	if (c->detached)
		return;
	c->detached = 1;
	if (c->on_detach != NULL)
		c->on_detach(c);
}

void
chan_free(struct chan *c)
{
	if (c == NULL || c->freed)
		return;
	detach(c);
	drop_queue(c);
	close(c->fd);
	c->fd = -1;
	c->freed = 1;
	if (c->busy == 0)
		free(c);
}

/* Around every callback: returns 0 when the channel was freed in it and must not be touched again.
 */
static void
enter(struct chan *c)
{
	c->busy++;
}

static int
leave(struct chan *c)
{
	c->busy--;
	if (!c->freed)
		return 1;
	if (c->busy == 0)
		free(c);
	return 0;
}

void *
chan_arg(const struct chan *c)
{
	return c->arg;
}

int
chan_fd(const struct chan *c)
{
	return c->fd;
}

void
chan_on_want_write(struct chan *c, chan_want_write want, void *arg2)
{
	c->on_want_write = want;
	c->arg2 = arg2;
}

void
chan_on_detach(struct chan *c, chan_detach detached)
{
	c->on_detach = detached;
}

void
chan_on_breach(struct chan *c, chan_breach breached)
{
	c->on_breach = breached;
}

void
chan_on_hold(struct chan *c, chan_hold hold)
{
	c->on_hold = hold;
}

void *
chan_arg2(const struct chan *c)
{
	return c->arg2;
}

size_t
chan_queued(const struct chan *c)
{
	return c->packets;
}

static void
set_unsent(struct chan *c, int want)
{
	if (c->unsent == want || c->detached)
		return;
	c->unsent = want;
	if (c->on_want_write != NULL)
		c->on_want_write(c, want);
}

/* Until the queue is small again, not just below the mark. */
static void
set_held(struct chan *c)
{
	unsigned part = c->held ? 4 : 1;
	int held = c->bytes > CHAN_ANSWERS_MAX / part || c->packets > CHAN_ANSWERS_PACKETS / part;

	if (c->on_hold == NULL || held == c->held || c->detached)
		return;
	c->held = held;
	c->on_hold(c, held);
}

/* Sends one packet. Returns CHAN_WANT_NOTHING when it is done with, else what to wait for. */
static int
transmit(struct chan *c, const struct iovec *iov, size_t niov, int fd)
{
	union control control = {0};
	struct msghdr mh = {.msg_iov = (struct iovec *)iov, .msg_iovlen = niov};
	struct cmsghdr *cm;

	if (fd != -1) {
		mh.msg_control = control.space;
		mh.msg_controllen = CMSG_SPACE(sizeof(int));
		cm = CMSG_FIRSTHDR(&mh);
		cm->cmsg_level = SOL_SOCKET;
		cm->cmsg_type = SCM_RIGHTS;
		cm->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(cm), &fd, sizeof(int));
	}
	while (sendmsg(c->fd, &mh, MSG_NOSIGNAL | MSG_DONTWAIT) == -1) {
		switch (errno) {
		case EINTR:
			continue;
		case EAGAIN:
			return CHAN_WANT_WRITE;
		case ENOBUFS:
		case ENOMEM:
		case ETOOMANYREFS: /* too many descriptors are in flight: the receivers are slow */
			return CHAN_WANT_LATER;
		case EPIPE:
		case ECONNRESET: /* the reading side will find the end, and says so */
			return CHAN_WANT_NOTHING;
		default:
			fatal(
			    "channel %s: sendmsg to %s", c->proto->name, chan_peer_name(c->other));
		}
	}
	return CHAN_WANT_NOTHING;
}

static void
enqueue(struct chan *c, const struct msg_header *h, const void *payload, size_t len,
    const void *tail, size_t tail_len, int fd)
{
	struct packet *p;

	if (c->packets >= CHAN_QUEUE_PACKETS || c->bytes + h->len > CHAN_QUEUE_BYTES)
		fatalx("channel %s: %zu packets of %zu bytes wait, and %s does not read them",
		    c->proto->name, c->packets, c->bytes, chan_peer_name(c->other));
	if ((p = malloc(sizeof(*p) + h->len)) == NULL)
		fatalx("channel %s: out of memory", c->proto->name);
	p->len = h->len;
	p->fd = fd;
	memcpy(p->data, h, sizeof(*h));
	memcpy(p->data + sizeof(*h), payload, len);
	if (tail_len > 0)
		memcpy(p->data + sizeof(*h) + len, tail, tail_len);
	STAILQ_INSERT_TAIL(&c->queue, p, next);
	c->packets++;
	c->bytes += p->len;
}

void
chan_send(struct chan *c, uint32_t type, uint64_t id, const void *payload, size_t len,
    const void *tail, size_t tail_len, int fd)
{
	struct msg_header h = {.type = type, .id = id};
	const struct msg_spec *spec = NULL;
	const char *reason;
	int want;

	reason = chan_check(c->proto, c->self, type, len + tail_len, fd != -1, &spec);
	if (reason == NULL && len != spec->fixed)
		reason = "wrong payload";
	if (reason != NULL)
		breach(c, c->self, type, reason);
	h.len = (uint32_t)(sizeof(h) + len + tail_len);
	if (c->freed || c->gone) {
		if (fd != -1)
			close(fd);
		return;
	}
	if (STAILQ_EMPTY(&c->queue)) {
		const struct iovec iov[] = {
		    {&h, sizeof(h)}, {(void *)payload, len}, {(void *)tail, tail_len}};

		if ((want = transmit(c, iov, 3, fd)) == CHAN_WANT_NOTHING) {
			if (fd != -1)
				close(fd);
			return;
		}
	} else
		want = c->unsent;
	enqueue(c, &h, payload, len, tail, tail_len, fd);
	set_unsent(c, want);
	set_held(c);
}

void
chan_writable(struct chan *c)
{
	struct packet *p;
	struct iovec iov;
	int want = CHAN_WANT_NOTHING;

	if (c->freed || c->gone)
		return;
	while ((p = STAILQ_FIRST(&c->queue)) != NULL) {
		iov.iov_base = p->data;
		iov.iov_len = p->len;
		if ((want = transmit(c, &iov, 1, p->fd)) != CHAN_WANT_NOTHING)
			break;
		drop_first(c);
	}
	set_unsent(c, want);
	set_held(c);
}

/* Counts the descriptors of a received packet; keeps the first, closes the others. */
static int
take_fds(struct msghdr *mh, int *first)
{
	struct cmsghdr *cm;
	size_t i, n;
	int fd, count = 0;

	*first = -1;
	for (cm = CMSG_FIRSTHDR(mh); cm != NULL; cm = CMSG_NXTHDR(mh, cm)) {
		if (cm->cmsg_level != SOL_SOCKET || cm->cmsg_type != SCM_RIGHTS)
			continue;
		n = (cm->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (i = 0; i < n; i++, count++) {
			memcpy(&fd, CMSG_DATA(cm) + i * sizeof(int), sizeof(int));
			if (count == 0)
				*first = fd;
			else
				close(fd);
		}
	}
	return count;
}

/*
 * Receives one packet into the inbox. Returns its size, 0 when there is none now, -1 when the peer
 * has gone. *reason is set when it is none of our packets.
 */
static ssize_t
receive(struct chan *c, int *fd, int *nfds, const char **reason)
{
	union control control;
	struct iovec iov = {&inbox, MSG_MAX + 1};
	struct msghdr mh = {.msg_iov = &iov,
	    .msg_iovlen = 1,
	    .msg_control = control.space,
	    .msg_controllen = sizeof(control.space)};
	ssize_t n;

	while ((n = recvmsg(c->fd, &mh, MSG_CMSG_CLOEXEC | MSG_DONTWAIT)) == -1) {
		if (errno == EAGAIN)
			return 0;
		/* A peer that left packets of ours unread resets first; what it sent is still there
		 * behind that. */
		if (errno != EINTR && errno != ECONNRESET)
			fatal("channel %s: recvmsg from %s", c->proto->name,
			    chan_peer_name(c->other));
	}
	*nfds = take_fds(&mh, fd);
	if (n == 0 && *nfds == 0)
		return -1;
	if (n < (ssize_t)sizeof(inbox.header)) {
		memset(&inbox.header, 0, sizeof(inbox.header));
		*reason = "shorter than a header";
	} else if (mh.msg_flags & MSG_CTRUNC)
		*reason = "its descriptors did not fit here";
	else if (mh.msg_flags & MSG_TRUNC || n > MSG_MAX)
		*reason = "over 64 KiB";
	else if (inbox.header.len != (size_t)n)
		*reason = "its length is not the packet's";
	return n;
}

/* Returns 0 when the channel was freed by its handler. */
static int
dispatch(struct chan *c, const struct msg_spec *spec, size_t body, int fd)
{
	struct msg m = {.type = inbox.header.type, .id = inbox.header.id, .fd = fd};
	int alive;

	inbox.body[body] = '\0';
	m.payload = inbox.body;
	m.tail = (const char *)inbox.body + spec->fixed;
	m.tail_len = body - spec->fixed;
	enter(c);
	c->on_message(c, &m);
	alive = leave(c);
	if (m.fd != -1)
		close(m.fd);
	return alive;
}

/* Nothing more is read or written; the owner is told why (or, when it is NULL, that the peer has
 * gone). */
static void
finish(struct chan *c, const char *reason)
{
	c->gone = 1;
	detach(c);
	drop_queue(c);
	enter(c);
	if (reason != NULL)
		c->on_breach(c, reason);
	else if (c->on_gone != NULL)
		c->on_gone(c);
	leave(c);
}

int
chan_read_one(struct chan *c)
{
	const struct msg_spec *spec = NULL;
	const char *reason = NULL;
	ssize_t n;
	size_t body;
	int fd, nfds;

	if (c->freed || c->gone)
		return -1;
	if ((n = receive(c, &fd, &nfds, &reason)) == 0 && reason == NULL)
		return 0;
	if (n == -1) {
		finish(c, NULL);
		return -1;
	}
	body = reason == NULL ? (size_t)n - sizeof(inbox.header) : 0;
	if (reason == NULL)
		reason = chan_check(c->proto, c->other, inbox.header.type, body, nfds, &spec);
	if (reason == NULL)
		return dispatch(c, spec, body, fd) ? 1 : -1;
	if (c->on_breach == NULL)
		breach(c, c->other, inbox.header.type, reason);
	if (fd != -1)
		close(fd);
	finish(c, reason);
	return -1;
}

void
chan_readable(struct chan *c)
{
	int i;

	for (i = 0; i < READ_MAX && !c->held; i++)
		if (chan_read_one(c) != 1)
			return;
}

int
msg_take_fd(struct msg *m)
{
	int fd = m->fd;

	m->fd = -1;
	return fd;
}
