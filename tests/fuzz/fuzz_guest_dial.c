/*
 * Connections out of the sandbox inside PID 1, with clients and a sessiond that do as the input
 * says. The input is a row of steps {what, n, n bytes}. Whatever they do, the channel's rules of
 * proto/guest.h are kept by our side, and what is kept of a client is bounded.
 */
// link: sandbox-init/dial.o sandbox-init/front.o sandbox-init/proxy_http.o
// link: sandbox-init/proxy_socks.o sandbox-init/mem.o
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/guest.h"
#include "sandbox-init/dial.h"
#include "sandbox-init/freeze.h"
#include "sandbox-init/listen.h"
#include "sandbox-init/stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

#define CHECK(x)                 \
	do {                     \
		if (!(x))        \
			abort(); \
	} while (0)

#define CLIENTS 3

static int clients[CLIENTS]; /* the ends of the clients; -1: closed */
static struct watch *watches[2 * CLIENTS];
static struct timer *timers[CLIENTS];
static uint8_t reserved[FRAME_HEADER + FRAME_DATA_MAX];

/* What was said on each channel. */
static struct {
	uint32_t credit; /* that we gave */
	uint8_t open, judged, ok, ended, sent_close, got_close;
} said[CLIENTS];

void
loop_watch(struct watch *w, int fd, void (*fn)(void *, short), void *arg)
{
	int i;

	*w = (struct watch){.fd = fd, .fn = fn, .arg = arg};
	for (i = 0; i < 2 * CLIENTS && watches[i] != NULL; i++)
		;
	CHECK(i < 2 * CLIENTS);
	watches[i] = w;
}

void
loop_unwatch(struct watch *w)
{
	int i;

	for (i = 0; i < 2 * CLIENTS; i++)
		if (watches[i] == w)
			watches[i] = NULL;
	w->events = 0;
}

void
timer_set(struct timer *t, int64_t at, void (*fn)(void *), void *arg)
{
	int i;

	timer_clear(t);
	*t = (struct timer){.at = at, .fn = fn, .arg = arg};
	for (i = 0; i < CLIENTS && timers[i] != NULL; i++)
		;
	CHECK(i < CLIENTS);
	timers[i] = t;
}

void
timer_clear(struct timer *t)
{
	int i;

	for (i = 0; i < CLIENTS; i++)
		if (timers[i] == t)
			timers[i] = NULL;
	t->at = 0;
}

int64_t
loop_now(void)
{
	return 1;
}

int
freeze_active(void)
{
	return 0;
}

void
listen_go_on(void)
{
}

static unsigned
slot(uint16_t channel)
{
	CHECK(channel > GUEST_CHANNELS && channel <= GUEST_CHANNELS + CLIENTS);
	return channel - GUEST_CHANNELS - 1U;
}

void
stream_send(uint8_t type, uint16_t channel, const void *head, size_t head_len, const void *tail,
    size_t tail_len)
{
	unsigned i = slot(channel);
	struct g_number w;

	(void)tail;
	if (type == G_DIAL) {
		CHECK(!said[i].open && head_len == sizeof(struct g_dial));
		CHECK(tail_len >= 1 && tail_len <= DIAL_NAME_MAX);
		CHECK(((const struct g_dial *)head)->port != 0);
		memset(&said[i], 0, sizeof(said[i]));
		said[i].open = 1;
		said[i].credit = GUEST_DIAL_WINDOW;
		return;
	}
	CHECK(said[i].open && !said[i].sent_close);
	switch (type) {
	case G_DATA_END:
		CHECK(said[i].ok && !said[i].ended && head_len == 0);
		said[i].ended = 1;
		break;
	case G_WINDOW:
		CHECK(said[i].ok && head_len == sizeof(w));
		memcpy(&w, head, sizeof(w));
		CHECK(w.n > 0 && w.n <= GUEST_DIAL_WINDOW_MAX);
		break;
	default:
		CHECK(type == G_CLOSE && head_len == 0);
		said[i].sent_close = 1;
		if (said[i].got_close)
			said[i].open = 0;
		break;
	}
}

uint8_t *
stream_reserve(void)
{
	return reserved + FRAME_HEADER;
}

void
stream_commit(uint8_t type, uint16_t channel, size_t len)
{
	unsigned i = slot(channel);

	CHECK(type == G_DATA && said[i].ok && !said[i].ended && !said[i].sent_close);
	CHECK(len > 0 && len <= said[i].credit);
	said[i].credit -= (uint32_t)len;
}

static void
come(unsigned which, enum dial_front front)
{
	struct ask a = {.how = DIAL_DIRECT, .port = 80, .name_len = 1, .name = "x"};
	struct dial *d;
	int fd[2];

	if (clients[which] >= 0 || dial_room() <= GUEST_DIALS - CLIENTS)
		return;
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd) == 0);
	clients[which] = fd[0];
	d = dial_new(fd[1], front);
	CHECK(d != NULL);
	if (front == FRONT_DIRECT)
		dial_ask(d, &a);
}

/* One turn of the loop. */
static void
turn(void)
{
	struct watch *w;
	struct pollfd p;
	int i;

	for (i = 0; i < 2 * CLIENTS; i++) {
		if ((w = watches[i]) == NULL || w->events == 0)
			continue;
		p = (struct pollfd){.fd = w->fd, .events = w->events};
		if (poll(&p, 1, 0) == 1)
			w->fn(w->arg, p.revents);
	}
}

/* Only what sessiond may say here, unless wrong: then anything. */
static void
frame_in(unsigned i, uint8_t type, const uint8_t *p, size_t n, int wrong)
{
	static uint8_t data[FRAME_DATA_MAX];
	struct frame f = {.type = type, .channel = (uint16_t)(GUEST_CHANNELS + 1 + i)};
	struct g_number w;

	f.len = (uint32_t)n * (type == G_DATA ? 200 : 1);
	memset(data, 'x', f.len);
	memcpy(data, p, n);
	f.data = data;
	if (!wrong && (!said[i].open || said[i].got_close || (type != G_DIALED) != said[i].judged))
		return;
	if (type == G_DIALED && said[i].open && !said[i].judged && n >= sizeof(struct g_dialed)) {
		said[i].judged = 1;
		said[i].ok = !said[i].sent_close && memcmp(data, "\0\0\0\0", 4) == 0;
	}
	if (type == G_WINDOW && n >= sizeof(w)) {
		memcpy(&w, data, sizeof(w));
		said[i].credit = w.n > GUEST_DIAL_WINDOW_MAX - said[i].credit
				     ? GUEST_DIAL_WINDOW_MAX
				     : said[i].credit + w.n;
	}
	if (type == G_CLOSE && said[i].open) {
		said[i].got_close = 1;
		if (said[i].sent_close)
			said[i].open = 0;
	}
	dial_frame(&f);
}

static void
client_does(unsigned which, unsigned what, const uint8_t *p, size_t n)
{
	static char scrap[65536];
	int fd = clients[which];

	if (fd < 0)
		return;
	switch (what) {
	case 0:
		(void)!send(fd, p, n, MSG_NOSIGNAL);
		break;
	case 1:
		shutdown(fd, SHUT_WR);
		break;
	case 2:
		(void)!recv(fd, scrap, sizeof(scrap), 0);
		break;
	default:
		close(fd);
		clients[which] = -1;
		break;
	}
}

static void
step(unsigned what, const uint8_t *p, size_t n)
{
	static const uint8_t types[] = {
	    G_DIALED, G_DATA, G_DATA_END, G_WINDOW, G_CLOSE, G_STDIN, G_DIALED, G_DATA};
	unsigned which = what % CLIENTS, kind = what / CLIENTS % 16;
	struct timer *t;

	if (kind < 3)
		come(which, (enum dial_front)kind);
	else if (kind < 7)
		client_does(which, kind - 3, p, n);
	else if (kind < 15)
		frame_in(which, types[kind - 7], p, n, what >= 3 * 16 * CLIENTS);
	else if ((t = timers[which]) != NULL) {
		timer_clear(t);
		t->fn(t->arg);
	}
	turn();
}

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	unsigned i;
	size_t len;

	memset(clients, 0xff, sizeof(clients));
	memset(said, 0, sizeof(said));
	while (n >= 2) {
		len = p[1] < n - 2 ? p[1] : n - 2;
		step(p[0], p + 2, len);
		p += 2 + len;
		n -= 2 + len;
	}
	dial_reset();
	CHECK(dial_room() == GUEST_DIALS);
	for (i = 0; i < CLIENTS; i++) {
		CHECK(watches[i] == NULL && watches[CLIENTS + i] == NULL && timers[i] == NULL);
		if (clients[i] >= 0)
			close(clients[i]);
	}
	return 0;
}
