/*
 * The life of a connection. Nothing waits for anybody: bytes are read from the client while the
 * channel has credit and the stream room, and from the channel at most its window is kept for the
 * client.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/guest.h"
#include "sandbox-init/dial.h"
#include "sandbox-init/freeze.h"
#include "sandbox-init/listen.h"
#include "sandbox-init/stream.h"

/* By which the windows of all may be larger than GUEST_DIAL_WINDOW together. */
#define MORE_MAX (24 * GUEST_DIAL_WINDOW)
#define EARLY_MAX 4096    /* bytes of a client that is still waiting for the verdict */
#define HEAD_US 20000000  /* for a client to say where it wants to go */
#define TELL_US 5000000   /* for a client to take our last bytes */
#define DRAIN_US 60000000 /* for a client to take a piece of what the host sent last */
#define FROZEN_US 1000000 /* clients that stand still are not late */

static struct dial *dials[GUEST_DIALS];
static unsigned ndials;
static uint32_t more; /* by which their windows have grown */

static void on_readable(void *, short);
static void on_writable(void *, short);
static void on_late(void *);

static size_t
waiting(const struct mem_queue *q)
{
	return q->end - q->start;
}

unsigned
dial_room(void)
{
	return GUEST_DIALS - ndials;
}

/* What is wanted of the client's socket now. */
static void
rewatch(struct dial *d)
{
	int read = 0;

	if (d->fd < 0)
		return;
	switch (d->phase) {
	case PHASE_HEAD:
		read = 1;
		break;
	case PHASE_ASKING:
		read = !d->in_ended && waiting(&d->in) < EARLY_MAX;
		break;
	case PHASE_OPEN:
		read = !d->in_ended && d->out_credit > 0;
		break;
	default: /* its end is awaited */
		read = d->shut;
		break;
	}
	d->reading.events = read ? POLLIN : 0;
	d->reading.outward = d->phase == PHASE_OPEN;
	d->writing.events = waiting(&d->out) > 0 ? POLLOUT : 0;
}

static void
late_in(struct dial *d, int64_t us)
{
	timer_set(&d->timer, loop_now() + us, on_late, d);
}

struct dial *
dial_new(int fd, enum dial_front front)
{
	struct dial *d;
	int i, on = 1;

	for (i = 0; i < GUEST_DIALS && dials[i] != NULL; i++)
		;
	if (i == GUEST_DIALS) {
		close(fd);
		return NULL;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	d = dials[i] = mem_new(sizeof(*d));
	ndials++;
	d->channel = (uint16_t)(GUEST_CHANNELS + 1 + i);
	d->front = (uint8_t)front;
	d->fd = fd;
	loop_watch(&d->reading, fd, on_readable, d);
	loop_watch(&d->writing, fd, on_writable, d);
	late_in(d, HEAD_US);
	rewatch(d);
	return d;
}

/* The client's side is over. */
static void
hang_up(struct dial *d, int reset)
{
	struct linger now = {.l_onoff = 1};

	d->phase = PHASE_OVER;
	mem_queue_free(&d->in);
	mem_queue_free(&d->out);
	timer_clear(&d->timer);
	if (d->fd < 0)
		return;
	loop_unwatch(&d->reading);
	loop_unwatch(&d->writing);
	if (reset)
		setsockopt(d->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(d->fd);
	d->fd = -1;
}

/* Frees it when both sides are over. */
static void
let_go(struct dial *d)
{
	if (d->fd >= 0 || (d->opened && !(d->sent_close && d->got_close)))
		return;
	dials[d->channel - GUEST_CHANNELS - 1] = NULL;
	ndials--;
	if (d->window > 0)
		more -= d->window - GUEST_DIAL_WINDOW;
	free(d);
	listen_go_on();
}

static void
say_close(struct dial *d)
{
	if (!d->opened || d->sent_close)
		return;
	d->sent_close = 1;
	stream_send(G_CLOSE, d->channel, NULL, 0, NULL, 0);
}

static void
finish(struct dial *d, int reset)
{
	hang_up(d, reset);
	say_close(d);
	let_go(d);
}

void
dial_abort(struct dial *d)
{
	finish(d, 1);
}

void
dial_put(struct dial *d, const void *p, size_t n)
{
	memcpy(mem_queue_reserve(&d->out, n), p, n);
	d->out.end += n;
	d->own += n;
	rewatch(d);
}

void
dial_ask(struct dial *d, const struct ask *a)
{
	struct g_dial g = {.port = a->port, .how = a->how};

	timer_clear(&d->timer);
	d->phase = PHASE_ASKING;
	d->how = a->how;
	d->opened = 1;
	d->out_credit = d->in_credit = d->window = GUEST_DIAL_WINDOW;
	stream_send(G_DIAL, d->channel, &g, sizeof(g), a->name, a->name_len);
	rewatch(d);
}

/* Bytes of the channel have reached the client: their credit goes back in steps, and more of it
 * where the client keeps up. */
static void
consumed(struct dial *d, size_t n)
{
	struct g_number w = {0};
	size_t own = n < d->own ? n : d->own;

	d->own -= own;
	d->in_unreturned += (uint32_t)(n - own);
	if (!d->opened || d->in_unreturned < d->window / 4 || d->got_end || d->sent_close)
		return;
	w.n = d->in_unreturned;
	if (waiting(&d->out) == 0 && d->window < GUEST_DIAL_WINDOW_MAX && more < MORE_MAX) {
		d->window += GUEST_DIAL_WINDOW;
		more += GUEST_DIAL_WINDOW;
		w.n += GUEST_DIAL_WINDOW;
	}
	d->in_credit += w.n;
	d->in_unreturned = 0;
	stream_send(G_WINDOW, d->channel, &w, sizeof(w), NULL, 0);
}

/* Passes ends on, as far as what came before them is handed on. The dial may be gone. */
static void
settle(struct dial *d)
{
	if (d->fd < 0)
		return;
	if (waiting(&d->out) > 0) {
		rewatch(d);
		return;
	}
	if (!d->shut && (d->phase == PHASE_TELLING || d->got_end)) {
		d->shut = 1;
		shutdown(d->fd, SHUT_WR);
	}
	if (d->phase == PHASE_OPEN && d->shut && (d->sent_end || d->got_close))
		finish(d, 0);
	else
		rewatch(d);
}

void
dial_tell(struct dial *d)
{
	d->phase = PHASE_TELLING;
	mem_queue_free(&d->in);
	late_in(d, TELL_US);
	settle(d);
}

static void
end_of_input(struct dial *d)
{
	d->in_ended = 1;
	d->sent_end = 1;
	stream_send(G_DATA_END, d->channel, NULL, 0, NULL, 0);
	settle(d);
}

static void
read_open(struct dial *d)
{
	size_t max = d->out_credit < FRAME_DATA_MAX ? d->out_credit : FRAME_DATA_MAX;
	ssize_t n = recv(d->fd, stream_reserve(), max, 0);

	if (n > 0) {
		stream_commit(G_DATA, d->channel, (size_t)n);
		d->out_credit -= (uint32_t)n;
		rewatch(d);
	} else if (n == 0) {
		end_of_input(d);
	} else if (errno != EAGAIN && errno != EINTR) {
		dial_abort(d);
	}
}

/* Who speaks before the connection is there may be heard a little; a proxy's client that ends then
 * has given up. */
static void
read_early(struct dial *d)
{
	ssize_t n = recv(d->fd, mem_queue_reserve(&d->in, EARLY_MAX), EARLY_MAX, 0);

	if (n > 0)
		d->in.end += (size_t)n;
	else if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	else if (n == 0 && d->how != DIAL_CONNECT && d->how != DIAL_SOCKS)
		d->in_ended = 1;
	else {
		dial_abort(d);
		return;
	}
	rewatch(d);
}

static void
discard(struct dial *d)
{
	static uint8_t scrap[4096];
	ssize_t n = recv(d->fd, scrap, sizeof(scrap), 0);

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		finish(d, 0);
}

static void
on_readable(void *arg, short revents)
{
	struct dial *d = arg;

	(void)revents;
	switch (d->phase) {
	case PHASE_HEAD:
		front_read(d);
		break;
	case PHASE_ASKING:
		read_early(d);
		break;
	case PHASE_OPEN:
		read_open(d);
		break;
	default:
		discard(d);
		break;
	}
}

/* How many bytes the client took; -1: it never will. */
static ssize_t
give(int fd, const uint8_t *p, size_t n)
{
	ssize_t sent = send(fd, p, n, MSG_NOSIGNAL);

	return sent < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : sent;
}

static void
on_writable(void *arg, short revents)
{
	struct dial *d = arg;
	ssize_t n = give(d->fd, d->out.p + d->out.start, waiting(&d->out));

	(void)revents;
	if (n < 0) {
		dial_abort(d);
		return;
	}
	d->out.start += (size_t)n;
	if (waiting(&d->out) == 0)
		mem_queue_free(&d->out);
	consumed(d, (size_t)n);
	if (d->got_close)
		late_in(d, DRAIN_US);
	settle(d);
}

static void
on_late(void *arg)
{
	struct dial *d = arg;

	if (freeze_active())
		late_in(d, FROZEN_US);
	else if (d->phase == PHASE_HEAD)
		front_late(d);
	else
		dial_abort(d);
}

/* What the client said early goes first; the window is larger than what is kept of it. */
static void
begin(struct dial *d)
{
	size_t n = waiting(&d->in);

	d->phase = PHASE_OPEN;
	if (n > 0) {
		memcpy(stream_reserve(), d->in.p + d->in.start, n);
		stream_commit(G_DATA, d->channel, n);
		d->out_credit -= (uint32_t)n;
	}
	mem_queue_free(&d->in);
	if (d->in_ended)
		end_of_input(d);
	else
		rewatch(d);
}

static void
take_verdict(struct dial *d, const struct frame *f)
{
	struct g_dialed g;

	if (d->phase != PHASE_ASKING || f->len < sizeof(g))
		return;
	memcpy(&g, f->data, sizeof(g));
	if (front_verdict(d, g.verdict, (const char *)f->data + sizeof(g), f->len - sizeof(g)))
		begin(d);
}

static void
take_data(struct dial *d, const struct frame *f)
{
	ssize_t n = 0;

	if (d->phase != PHASE_OPEN)
		return;
	if (f->len > d->in_credit || d->got_end) {
		dial_abort(d);
		return;
	}
	d->in_credit -= f->len;
	if (waiting(&d->out) == 0 && (n = give(d->fd, f->data, f->len)) < 0) {
		dial_abort(d);
		return;
	}
	if ((size_t)n < f->len) {
		memcpy(mem_queue_reserve(&d->out, f->len - (size_t)n), f->data + n,
		    f->len - (size_t)n);
		d->out.end += f->len - (size_t)n;
	}
	consumed(d, (size_t)n);
	rewatch(d);
}

static void
take_window(struct dial *d, const struct frame *f)
{
	struct g_number w;

	if (f->len < sizeof(w))
		return;
	memcpy(&w, f->data, sizeof(w));
	d->out_credit =
	    w.n > GUEST_DIAL_WINDOW - d->out_credit ? GUEST_DIAL_WINDOW : d->out_credit + w.n;
	rewatch(d);
}

static void
take_close(struct dial *d)
{
	d->got_close = 1;
	if (d->phase == PHASE_TELLING) { /* it was refused, and the client is being told */
		say_close(d);
	} else if (d->phase == PHASE_OPEN && d->got_end) {
		late_in(d, DRAIN_US);
		settle(d);
	} else {
		dial_abort(d);
	}
}

void
dial_frame(const struct frame *f)
{
	struct dial *d;

	if (f->channel <= GUEST_CHANNELS || f->channel > GUEST_CHANNELS + GUEST_DIALS)
		return;
	d = dials[f->channel - GUEST_CHANNELS - 1];
	if (d == NULL || !d->opened)
		return;
	switch (f->type) {
	case G_DIALED:
		take_verdict(d, f);
		break;
	case G_DATA:
		take_data(d, f);
		break;
	case G_DATA_END:
		if (d->phase == PHASE_OPEN) {
			d->got_end = 1;
			settle(d);
		}
		break;
	case G_WINDOW:
		take_window(d, f);
		break;
	case G_CLOSE:
		take_close(d);
		break;
	default:
		break;
	}
}

void
dial_reset(void)
{
	struct dial *d;
	int i;

	for (i = 0; i < GUEST_DIALS; i++) {
		if ((d = dials[i]) == NULL)
			continue;
		d->opened = 0; /* the channel is closed without a word */
		finish(d, 1);
	}
}
