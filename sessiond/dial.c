/*
 * Connections out of the sandbox. What comes from the guest is written to the socket as that takes
 * it, and what comes from the socket goes to the guest within its credit: a side that does not read
 * holds up its own connection and nothing else.
 */
#include <sys/socket.h>

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <event2/event.h>

#include "common/log.h"
#include "proto/dial.h"
#include "sessiond/dial.h"
#include "sessiond/session.h"
#include "sessiond/text.h"

/* By which the windows of all may be larger than GUEST_DIAL_WINDOW together. */
#define DIAL_MORE_MAX (32 * GUEST_DIAL_WINDOW)
/* Of GUEST_BUDGET: some thousands a second; sandbox-init keeps to fewer. */
#define COST_DIAL 20
#define COST_WINDOW 1

struct dial {
	struct session *s;
	uint64_t id;
	uint16_t channel;
	int fd; /* -1: closed */
	struct event
	    ev_read; /* always pending, edge-triggered: also tells of a peer that has gone */
	struct event ev_write;
	struct buf out;        /* from the guest, for the socket */
	uint32_t guest_credit; /* bytes that the guest may still send */
	uint32_t our_credit;   /* bytes that we may still send */
	uint32_t owed;         /* credit that we can give back to the guest */
	uint32_t window;       /* of the guest: what was given and not yet owed again */
	uint8_t judged;        /* managerd has answered */
	uint8_t ok;            /* that bytes may flow */
	uint8_t got_end, sent_end;
	uint8_t got_close, sent_close;
	uint8_t shut; /* the socket's peer was told that nothing follows */
};

void
dial_announce(struct session *s)
{
	if (s->state != SESSION_UP || !s->egress)
		return;
	s->announced++;
	guest_send(s, G_EGRESS, 0, s->egress_list, s->egress_len);
}

const char *
dial_listens(struct session *s, const struct frame *f)
{
	char text[GUEST_TEXT_MAX + 1];
	struct g_listens g;

	if (s->announced == 0 || f->len > sizeof(g) + GUEST_TEXT_MAX)
		return "an answer that nobody asked for";
	s->announced--;
	memcpy(&g, f->data, sizeof(g));
	text_clean((const char *)f->data + sizeof(g), f->len - sizeof(g), text, sizeof(text));
	if (g.failed > 0)
		log_warnx("%s: %u of the addresses of its way out cannot be had: %.160s", s->name,
		    g.failed, text);
	return NULL;
}

static void
dial_close_socket(struct dial *d)
{
	buf_free(&d->out);
	if (d->fd == -1)
		return;
	event_del(&d->ev_read);
	event_del(&d->ev_write);
	close(d->fd);
	d->fd = -1;
}

static void
dial_free(struct dial *d)
{
	dial_close_socket(d);
	d->s->dials[d->channel - GUEST_CHANNELS - 1] = NULL;
	d->s->ndials--;
	d->s->dials_more -= d->window - GUEST_DIAL_WINDOW;
	free(d);
}

void
dial_drop_all(struct session *s)
{
	int i;

	for (i = 0; i < GUEST_DIALS; i++) {
		if (s->dials[i] != NULL)
			dial_free(s->dials[i]);
	}
}

/* The last frame on the channel. The dial may be gone. */
static void
dial_say_close(struct dial *d)
{
	dial_close_socket(d);
	d->sent_close = 1;
	guest_send(d->s, G_CLOSE, d->channel, NULL, 0);
	if (d->got_close)
		dial_free(d);
}

/* Does what has become possible: passes ends on, and closes what is over. The dial may be gone. */
static void
dial_settle(struct dial *d)
{
	if (d->sent_close)
		return;
	if (d->got_end && !d->shut && buf_len(&d->out) == 0 && d->fd != -1) {
		d->shut = 1;
		shutdown(d->fd, SHUT_WR);
	}
	/* What the guest no longer wants is over at once, but for the bytes before its end. */
	if (d->got_close && !(d->got_end && !d->shut))
		dial_close_socket(d);
	if (d->fd == -1 || (d->sent_end && d->shut)) {
		/* Not before the answer, so that the guest cannot ask for more than are answered.
		 */
		if (d->judged)
			dial_say_close(d);
	}
}

/* Credit that is worth a frame goes back, and more of it where nothing waits for the socket. */
static void
dial_give(struct dial *d)
{
	struct g_number w = {.n = d->owed};

	if (d->owed < d->window / 4 || d->got_end || d->sent_close || guest_full(d->s))
		return;
	if (buf_len(&d->out) == 0 && d->window < GUEST_DIAL_WINDOW_MAX &&
	    d->s->dials_more < DIAL_MORE_MAX) {
		d->window += GUEST_DIAL_WINDOW;
		d->s->dials_more += GUEST_DIAL_WINDOW;
		w.n += GUEST_DIAL_WINDOW;
	}
	d->owed = 0;
	d->guest_credit += w.n;
	guest_send(d->s, G_WINDOW, d->channel, &w, sizeof(w));
}

/* The peer of the socket has broken off. */
static void
dial_abort(struct dial *d)
{
	dial_close_socket(d);
	dial_settle(d);
}

/* How many bytes the socket took; -1: it never will. */
static ssize_t
dial_send(struct dial *d, const uint8_t *p, size_t n)
{
	ssize_t sent = send(d->fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (sent == -1 && (errno == EAGAIN || errno == EINTR))
		sent = 0;
	if (sent > 0)
		d->owed += (uint32_t)sent;
	return sent;
}

static void
dial_await_room(struct dial *d)
{
	if (event_add(&d->ev_write, NULL) == -1)
		fatalx("dial: event");
}

static void
dial_writable(evutil_socket_t fd, short what, void *arg)
{
	struct dial *d = arg;
	struct session *s = d->s;
	ssize_t n;

	(void)fd;
	(void)what;
	n = dial_send(d, buf_data(&d->out), buf_len(&d->out));
	if (n == -1) {
		dial_abort(d);
	} else {
		buf_drop(&d->out, (size_t)n);
		if (buf_len(&d->out) > 0)
			dial_await_room(d);
		else
			buf_free(&d->out);
		dial_give(d);
		dial_settle(d);
	}
	session_batch_end(s);
}

/* From the socket to the guest, as far as there is credit. The dial may be gone. */
static void
dial_pump(struct dial *d)
{
	static uint8_t bytes[FRAME_DATA_MAX];
	ssize_t n;

	while (d->ok && d->fd != -1 && !d->sent_end && !d->got_close && d->our_credit > 0 &&
	       !guest_full(d->s)) {
		n = recv(d->fd, bytes,
		    d->our_credit < sizeof(bytes) ? d->our_credit : sizeof(bytes), MSG_DONTWAIT);
		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1 && errno == EAGAIN)
			return;
		if (n == -1) {
			dial_abort(d);
			return;
		}
		if (n == 0) {
			d->sent_end = 1;
			guest_send(d->s, G_DATA_END, d->channel, NULL, 0);
			dial_settle(d);
			return;
		}
		d->our_credit -= (uint32_t)n;
		guest_send_data(d->s, G_DATA, d->channel, bytes, (uint32_t)n);
	}
}

/* Whether the peer has closed its end of the socket and not only shut it down. */
static int
dial_peer_gone(const struct dial *d)
{
	struct pollfd p = {.fd = d->fd};

	return poll(&p, 1, 0) == 1 && (p.revents & (POLLHUP | POLLERR));
}

static void
dial_readable(evutil_socket_t fd, short what, void *arg)
{
	struct dial *d = arg;
	struct session *s = d->s;

	(void)fd;
	(void)what;
	if (d->ok && !d->shut && dial_peer_gone(d))
		dial_abort(d);
	else
		dial_pump(d);
	session_batch_end(s);
}

void
dial_verdict(struct session *s, uint64_t id, uint32_t verdict, const char *text, uint32_t text_len)
{
	uint8_t frame[sizeof(struct g_dialed) + DIAL_TEXT_MAX];
	struct g_dialed g = {.verdict = verdict};
	struct dial *d = NULL;
	int i;

	if (s->state != SESSION_UP)
		return;
	for (i = 0; i < GUEST_DIALS && d == NULL; i++) {
		if (s->dials[i] != NULL && s->dials[i]->id == id)
			d = s->dials[i];
	}
	if (d == NULL || d->judged)
		fatalx("managerd: a verdict that nobody asked for");
	memcpy(frame, &g, sizeof(g));
	memcpy(frame + sizeof(g), text, text_len);
	guest_send(s, G_DIALED, d->channel, frame, (uint32_t)(sizeof(g) + text_len));
	d->judged = 1;
	d->ok = verdict == DIAL_OK;
	if (!d->ok)
		dial_close_socket(d);
	else if (d->fd != -1 && dial_peer_gone(d))
		dial_close_socket(d);
	if (d->fd == -1)
		dial_settle(d);
	else
		dial_pump(d);
}

void
dial_room(struct session *s)
{
	static unsigned turn;
	struct dial *d;
	int i;

	if (s->ndials == 0)
		return;
	for (i = 0; i < GUEST_DIALS; i++) {
		if ((d = s->dials[i]) != NULL)
			dial_give(d);
	}
	turn++;
	for (i = 0; i < GUEST_DIALS && !guest_full(s); i++) {
		if ((d = s->dials[(turn + (unsigned)i) % GUEST_DIALS]) != NULL)
			dial_pump(d);
	}
}

/* Our end, and for managerd the other one. -1: no descriptor is left. */
static int
dial_open_socket(struct dial *d, int *theirs)
{
	int fd[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) == -1)
		return -1;
	d->fd = fd[0];
	*theirs = fd[1];
	if (event_assign(&d->ev_read, d->s->base, d->fd, EV_READ | EV_CLOSED | EV_PERSIST | EV_ET,
		dial_readable, d) == -1 ||
	    event_assign(&d->ev_write, d->s->base, d->fd, EV_WRITE, dial_writable, d) == -1 ||
	    event_add(&d->ev_read, NULL) == -1)
		fatalx("dial: event");
	return 0;
}

/* DIAL: a new channel. */
static const char *
dial_open(struct session *s, const struct frame *f)
{
	static const char full[] = "the server has no descriptors left";
	const char *name = (const char *)f->data + sizeof(struct g_dial);
	struct m_s_dial m = {0};
	struct g_dial g;
	struct dial *d;
	int theirs;

	if (f->type != G_DIAL)
		return "frame on a closed channel";
	if (!s->egress)
		return "a connection where there is no way out";
	if (f->len <= sizeof(g) || f->len > sizeof(g) + DIAL_NAME_MAX)
		return "frame of a wrong length";
	memcpy(&g, f->data, sizeof(g));
	if (g.port == 0 || g.how > DIAL_HTTP)
		return "a connection that cannot be";
	if (guest_charge(&s->guest, COST_DIAL) == -1)
		return "too many control frames";
	if (buf_len(&s->guest.out) > GUEST_OUT_MAX)
		return "connections are asked for, and the answers not read";
	if ((d = calloc(1, sizeof(*d))) == NULL)
		fatal("dial");
	d->s = s;
	d->id = ++s->last_dial;
	d->channel = f->channel;
	d->guest_credit = d->our_credit = d->window = GUEST_DIAL_WINDOW;
	d->fd = -1;
	s->dials[f->channel - GUEST_CHANNELS - 1] = d;
	s->ndials++;
	if (dial_open_socket(d, &theirs) == -1) {
		log_warn("%s: a socket for a connection", s->name);
		dial_verdict(s, d->id, DIAL_FAILED, full, sizeof(full) - 1);
		return NULL;
	}
	m.port = g.port;
	m.how = g.how;
	send_S_DIAL(s->manager, d->id, &m, name, f->len - sizeof(g), theirs);
	return NULL;
}

static const char *
dial_data(struct dial *d, const struct frame *f)
{
	ssize_t n = 0;

	if (!d->ok || d->got_end)
		return "data out of turn";
	if (f->len == 0 || f->len > d->guest_credit)
		return "more data than credit";
	d->guest_credit -= f->len;
	if (d->fd == -1)
		return NULL;
	if (buf_len(&d->out) == 0)
		n = dial_send(d, f->data, f->len);
	if (n == -1) {
		dial_abort(d);
		return NULL;
	}
	if ((size_t)n < f->len) {
		if (buf_len(&d->out) == 0)
			dial_await_room(d);
		buf_add(&d->out, f->data + n, f->len - (size_t)n);
	}
	dial_give(d);
	return NULL;
}

static const char *
dial_window(struct dial *d, const struct frame *f)
{
	struct g_number w;

	if (f->len != sizeof(w))
		return "frame of a wrong length";
	memcpy(&w, f->data, sizeof(w));
	if (w.n == 0 || w.n > GUEST_DIAL_WINDOW_MAX - d->our_credit)
		return "credit that nobody took";
	if (guest_charge(&d->s->guest, COST_WINDOW) == -1)
		return "too many control frames";
	d->our_credit += w.n;
	dial_pump(d);
	return NULL;
}

const char *
dial_frame(struct session *s, const struct frame *f)
{
	struct dial *d = s->dials[f->channel - GUEST_CHANNELS - 1];

	if (d == NULL)
		return dial_open(s, f);
	if (d->got_close)
		return "frame behind the last one";
	switch (f->type) {
	case G_DATA:
		return dial_data(d, f);
	case G_WINDOW:
		return dial_window(d, f);
	case G_DATA_END:
		if (f->len != 0 || !d->ok || d->got_end)
			return "an end out of turn";
		d->got_end = 1;
		dial_settle(d);
		return NULL;
	case G_CLOSE:
		if (f->len != 0)
			return "frame of a wrong length";
		d->got_close = 1;
		if (d->sent_close)
			dial_free(d);
		else
			dial_settle(d);
		return NULL;
	default:
		return "frame of a wrong type";
	}
}
