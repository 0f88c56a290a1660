/*
 * The stream to and from the sandbox: attaching, the engine's framing, whole frames. Reading never
 * waits for anybody: what a channel may send is bounded by its credit.
 */
#include <sys/socket.h>
#include <sys/uio.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/ids.h"
#include "common/log.h"
#include "sessiond/channel.h"
#include "sessiond/guest.h"
#include "sessiond/session.h"

#define GUEST_IN_MIN 4096
#define GUEST_IN_STEP 32768
#define GUEST_IN_MAX (FRAME_HEADER + FRAME_DATA_MAX + 128 * 1024)
#define GUEST_READS 4 /* at a time, then other events have their turn */
#define GUEST_DIRECT_MIN 2048
#define GUEST_ACK_SECONDS 10
#define GUEST_STALL_SECONDS 120 /* without taking a byte of what waits for it */

int
guest_sync(const uint8_t *p, size_t n, uint64_t nonce, struct g_hello *ack, size_t *used)
{
	const size_t whole = FRAME_HEADER + sizeof(*ack);
	struct frame f;
	size_t at;

	for (at = 0; at < n && n - at >= whole; at += frame_resync(p + at, n - at)) {
		if (frame_parse(p + at, whole, &f) != (int64_t)whole)
			continue;
		if (f.type != G_HELLO_ACK || f.channel != 0)
			continue;
		memcpy(ack, f.data, sizeof(*ack));
		if (ack->nonce != nonce)
			continue;
		*used = at + whole;
		return 1;
	}
	*used = at;
	return 0;
}

int
guest_charge(struct guest *g, uint32_t cost)
{
	int64_t now = time_boot_us();

	if (now - g->second_us >= 1000000) {
		g->second_us = now;
		g->budget = GUEST_BUDGET;
	}
	if (g->budget < cost)
		return -1;
	g->budget -= cost;
	return 0;
}

/* The padding and HELLO went out; now everything up to the answer is discarded. */
static const char *
guest_handshake(struct session *s, size_t *used)
{
	struct guest *g = &s->guest;
	struct g_hello ack;

	if (!guest_sync(g->in, g->in_len, g->nonce, &ack, used))
		return NULL;
	event_del(&g->ev_deadline);
	if (ack.version != GUEST_VERSION) {
		s->down = (struct m_s_down){.why = DOWN_VERSION, .guest_version = ack.version};
		return "guest version";
	}
	session_up(s, ack.version);
	return NULL;
}

/* Handles what lies in the buffer; the rest of a frame stays there. */
static const char *
guest_frames(struct session *s)
{
	struct guest *g = &s->guest;
	const char *why = NULL;
	struct frame f;
	size_t at = 0;
	int64_t len;

	if (s->state == SESSION_ATTACHING)
		why = guest_handshake(s, &at);
	while (why == NULL && s->state == SESSION_UP) {
		len = frame_parse(g->in + at, g->in_len - at, &f);
		if (len < 0)
			why = "malformed frame";
		if (len <= 0)
			break;
		why = channel_frame(s, &f);
		if (why != NULL)
			log_debug(
			    "breach: type %u, channel %u, %u bytes", f.type, f.channel, f.len);
		at += (size_t)len;
	}
	g->in_len -= at;
	if (g->in_len > 0 && at > 0)
		memmove(g->in, g->in + at, g->in_len);
	return why;
}

/* n bytes were put behind those in the buffer. */
static const char *
guest_take(struct session *s, size_t n)
{
	struct guest *g = &s->guest;
	ssize_t len = (ssize_t)n;

	if (g->framing == GUEST_STDCOPY)
		len = stdcopy_unwrap(&g->stdcopy, g->in + g->in_len, n);
	if (len == -1)
		return "malformed engine framing";
	g->in_len += (size_t)len;
	return guest_frames(s);
}

/* Grows the buffer when the last read filled it: most sessions never need more than one page. */
static void
guest_room(struct guest *g)
{
	size_t cap = g->in_cap;

	if (g->in_len < g->in_cap)
		return;
	cap = cap == 0 ? GUEST_IN_MIN : cap == GUEST_IN_MIN ? GUEST_IN_STEP : GUEST_IN_MAX;
	if (cap == g->in_cap)
		fatalx("guest buffer is full");
	g->in = realloc(g->in, cap);
	if (g->in == NULL)
		fatal("guest buffer");
	g->in_cap = cap;
}

const char *
guest_feed(struct session *s, const uint8_t *p, size_t n)
{
	struct guest *g = &s->guest;
	const char *why = NULL;
	size_t len;

	while (n > 0 && why == NULL) {
		guest_room(g);
		len = g->in_cap - g->in_len < n ? g->in_cap - g->in_len : n;
		memcpy(g->in + g->in_len, p, len);
		p += len;
		n -= len;
		why = guest_take(s, len);
	}
	return why;
}

/* The end of the stream. The reason that managerd may just have sent is the better one. */
static void
guest_lost(struct session *s, const char *why)
{
	chan_readable(s->manager);
	if (s->state == SESSION_ATTACHING || s->state == SESSION_UP)
		session_down(s, why);
}

static void
guest_readable(evutil_socket_t fd, short what, void *arg)
{
	struct session *s = arg;
	struct guest *g = &s->guest;
	const char *why = NULL;
	size_t room;
	ssize_t n;
	int i;

	(void)what;
	for (i = 0; i < GUEST_READS && why == NULL && !g->broken; i++) {
		guest_room(g);
		room = g->in_cap - g->in_len;
		n = recv(fd, g->in + g->in_len, room, MSG_DONTWAIT);
		if (n == -1 && (errno == EAGAIN || errno == EINTR))
			break;
		if (n <= 0) {
			g->broken = 1;
			break;
		}
		why = guest_take(s, (size_t)n);
		if ((size_t)n < room)
			break;
	}
	session_batch_end(s);
	if (why != NULL)
		session_down(s, why);
	else if (g->broken)
		guest_lost(s, "the stream ended");
}

static void
guest_writable(evutil_socket_t fd, short what, void *arg)
{
	struct session *s = arg;

	(void)fd;
	if (what & EV_TIMEOUT)
		session_down(s, "it takes nothing any more");
	session_batch_end(s);
}

/* What waits to be written may be all that somebody's request waits for: without a limit that could
 * be for ever. */
static void
guest_await_room(struct guest *g, int moved)
{
	static const struct timeval stall = {GUEST_STALL_SECONDS, 0};

	if (moved)
		event_del(&g->ev_write);
	if (!event_pending(&g->ev_write, EV_WRITE, NULL) && event_add(&g->ev_write, &stall) == -1)
		fatalx("guest: event");
}

static void
guest_deadline(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	session_down(arg, "no answer to the greeting");
}

int
guest_full(const struct session *s)
{
	return s->guest.full;
}

static void
guest_mark(struct guest *g)
{
	if (buf_len(&g->out) > GUEST_OUT_HIGH)
		g->full = 1;
	else if (buf_len(&g->out) <= GUEST_OUT_LOW)
		g->full = 0;
}

/* A write that failed is told by the reading side, outside of whatever is being done now. */
static void
guest_write_failed(struct guest *g)
{
	g->broken = 1;
	buf_free(&g->out);
	event_active(&g->ev_read, EV_READ, 1);
}

void
guest_flush(struct session *s)
{
	struct guest *g = &s->guest;
	int moved = 0;
	ssize_t n;

	while (g->fd != -1 && !g->broken && buf_len(&g->out) > 0) {
		n = send(g->fd, buf_data(&g->out), buf_len(&g->out), MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1 && errno != EAGAIN) {
			guest_write_failed(g);
			break;
		}
		if (n == -1) {
			guest_await_room(g, moved);
			break;
		}
		moved = 1;
		buf_drop(&g->out, (size_t)n);
	}
	guest_mark(g);
}

void
guest_send(struct session *s, uint8_t type, uint16_t channel, const void *p, uint32_t len)
{
	struct guest *g = &s->guest;
	uint8_t header[FRAME_HEADER];

	if (g->fd == -1 || g->broken)
		return;
	frame_header(header, type, channel, p, len);
	buf_add(&g->out, header, sizeof(header));
	buf_add(&g->out, p, len);
	guest_mark(g);
}

void
guest_send_data(struct session *s, uint8_t type, uint16_t channel, const void *p, uint32_t len)
{
	struct guest *g = &s->guest;
	uint8_t header[FRAME_HEADER];
	struct iovec iov[2] = {
	    {.iov_base = header, .iov_len = sizeof(header)},
	    {.iov_base = (void *)(uintptr_t)p, .iov_len = len},
	};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
	size_t sent = 0, body;
	ssize_t n;

	if (g->fd == -1 || g->broken)
		return;
	frame_header(header, type, channel, p, len);
	if (len >= GUEST_DIRECT_MIN && buf_len(&g->out) == 0) {
		n = sendmsg(g->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
		sent = n == -1 ? 0 : (size_t)n; /* an error shows again at the flush */
	}
	body = sent > sizeof(header) ? sent - sizeof(header) : 0;
	if (sent < sizeof(header))
		buf_add(&g->out, header + sent, sizeof(header) - sent);
	buf_add(&g->out, (const uint8_t *)p + body, len - body);
	guest_mark(g);
}

void
guest_attach(struct session *s, int fd, uint32_t framing)
{
	static const struct timeval deadline = {GUEST_ACK_SECONDS, 0};
	struct guest *g = &s->guest;
	struct g_hello hello = {.version = GUEST_VERSION};

	g->fd = fd;
	g->framing = framing;
	g->nonce = id_new();
	hello.nonce = g->nonce;
	memset(buf_room(&g->out, GUEST_PADDING), 0, GUEST_PADDING);
	buf_wrote(&g->out, GUEST_PADDING);
	guest_send(s, G_HELLO, 0, &hello, sizeof(hello));
	if (event_assign(&g->ev_read, s->base, fd, EV_READ | EV_PERSIST, guest_readable, s) == -1 ||
	    event_assign(&g->ev_write, s->base, fd, EV_WRITE, guest_writable, s) == -1 ||
	    evtimer_assign(&g->ev_deadline, s->base, guest_deadline, s) == -1 ||
	    event_add(&g->ev_read, NULL) == -1 || event_add(&g->ev_deadline, &deadline) == -1)
		fatalx("guest: event");
	guest_flush(s);
}

void
guest_close(struct session *s)
{
	struct guest *g = &s->guest;

	if (g->fd == -1)
		return;
	event_del(&g->ev_read);
	event_del(&g->ev_write);
	event_del(&g->ev_deadline);
	close(g->fd);
	g->fd = -1;
	g->full = 0;
	buf_free(&g->out);
	free(g->in);
	g->in = NULL;
	g->in_len = g->in_cap = 0;
}

void
guest_idle(struct session *s)
{
	struct guest *g = &s->guest;

	if (buf_len(&g->out) == 0)
		buf_free(&g->out);
	if (g->in_len == 0 && g->in_cap > GUEST_IN_MIN) {
		free(g->in);
		g->in = NULL;
		g->in_cap = 0;
	}
}
