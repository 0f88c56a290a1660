/*
 * The listening sockets hang on one epoll(7) descriptor, since there may be hundreds of them in a
 * loop that asks for each of its descriptors on every turn.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/egress.h"
#include "proto/guest.h"
#include "sandbox-init/channel.h"
#include "sandbox-init/dial.h"
#include "sandbox-init/hosts.h"
#include "sandbox-init/listen.h"
#include "sandbox-init/loop.h"
#include "sandbox-init/mem.h"
#include "sandbox-init/stream.h"

#define HTTP_PORT 3128
#define SOCKS_PORT 1080
#define HOSTS_FILE "/etc/hosts"
#define HOSTS_MAX (128 * 1024)
#define LISTENERS_MAX 1024
#define BACKLOG 512
#define ACCEPTS 16       /* on one turn of the loop */
#define ACCEPT_RATE 1000 /* a second */
#define PAUSE_US 1000000
#define SHORT_US 100000 /* until the kernel may have what it lacked */

struct listener {
	struct listener *next;
	int fd;
	uint8_t address[4];
	uint8_t front; /* enum dial_front */
	uint16_t port;
	uint16_t name_len;
	char name[];
};

static struct listener *listeners;
static unsigned nlisteners;
static struct watch ready = {.fd = -1};
static struct timer pause_timer;
static unsigned accepted; /* since the pause before */
static struct g_listens result;
static char complaint[160];

static void
fail(const struct sockaddr_in *sin, int error)
{
	char address[INET_ADDRSTRLEN] = "";

	if (result.failed++ > 0)
		return;
	inet_ntop(AF_INET, &sin->sin_addr, address, sizeof(address));
	snprintf(complaint, sizeof(complaint), "%s port %u: %s", address, ntohs(sin->sin_port),
	    strerror(error));
}

static int
listening_socket(const struct sockaddr_in *sin)
{
	int fd, error, on = 1;

	fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
	    bind(fd, (const struct sockaddr *)sin, sizeof(*sin)) == 0 && listen(fd, BACKLOG) == 0)
		return fd;
	error = errno;
	if (fd >= 0)
		close(fd);
	errno = error;
	return -1;
}

/* A list may name a host twice, with and without a port. */
static int
is_listening(const uint8_t address[4], uint16_t port)
{
	const struct listener *l;

	for (l = listeners; l != NULL; l = l->next)
		if (l->port == port && memcmp(l->address, address, sizeof(l->address)) == 0)
			return 1;
	return 0;
}

static void
listen_on(const uint8_t address[4], uint16_t port, enum dial_front front, const char *name,
    size_t name_len)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct epoll_event e = {.events = EPOLLIN};
	struct listener *l;
	int fd;

	if (is_listening(address, port))
		return;
	memcpy(&sin.sin_addr, address, 4);
	if (nlisteners >= LISTENERS_MAX || name_len > DIAL_NAME_MAX) {
		fail(&sin, E2BIG);
		return;
	}
	if ((fd = listening_socket(&sin)) < 0) {
		fail(&sin, errno);
		return;
	}
	l = mem_new(sizeof(*l) + name_len);
	l->fd = fd;
	memcpy(l->address, address, sizeof(l->address));
	l->front = (uint8_t)front;
	l->port = port;
	l->name_len = (uint16_t)name_len;
	if (name_len > 0)
		memcpy(l->name, name, name_len);
	e.data.ptr = l;
	if (epoll_ctl(ready.fd, EPOLL_CTL_ADD, fd, &e) < 0) {
		fail(&sin, errno);
		close(fd);
		free(l);
		return;
	}
	l->next = listeners;
	listeners = l;
	nlisteners++;
	result.listeners++;
}

static void
listen_for_name(const struct hosts_name *h, uint16_t port)
{
	listen_on(h->address, port, FRONT_DIRECT, h->name, h->len);
}

/* For every entry of the list that is a name, each line of the hosts file with that name. */
static void
listen_for_entry(const char *hosts, size_t hosts_len, const struct egress_entry *e)
{
	struct hosts_name h;
	size_t at = 0;

	while (hosts_next(hosts, hosts_len, &at, &h)) {
		if (e != NULL && (h.len != strlen(e->name) || memcmp(h.name, e->name, h.len) != 0))
			continue;
		if (e != NULL && e->port != 0) {
			listen_for_name(&h, e->port);
			continue;
		}
		listen_for_name(&h, 80);
		listen_for_name(&h, 443);
	}
}

static size_t
read_hosts(char *text)
{
	int fd = open(HOSTS_FILE, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	size_t len = 0;
	ssize_t n;

	if (fd < 0)
		return 0;
	while (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && len < HOSTS_MAX &&
	       (n = read(fd, text + len, HOSTS_MAX - len)) > 0)
		len += (size_t)n;
	close(fd);
	return len;
}

static void
listen_for_list(const char *text, size_t len)
{
	struct egress_walk walk = {text, len, 0};
	struct egress_entry e;
	char *hosts = mem_new(HOSTS_MAX);
	size_t hosts_len = read_hosts(hosts);

	if (len == strlen(EGRESS_ANY) && memcmp(text, EGRESS_ANY, len) == 0)
		listen_for_entry(hosts, hosts_len, NULL);
	else
		while (egress_next(&walk, &e) == 1)
			if (e.kind == EGRESS_HOST)
				listen_for_entry(hosts, hosts_len, &e);
	free(hosts);
}

static void
pause_over(void *arg)
{
	(void)arg;
	accepted = 0;
	listen_go_on();
}

static void
pause_for(int64_t us)
{
	if (pause_timer.at == 0)
		timer_set(&pause_timer, loop_now() + us, pause_over, NULL);
}

void
listen_go_on(void)
{
	if (ready.fd < 0)
		return;
	ready.events = dial_room() > 0 && accepted < ACCEPT_RATE ? POLLIN : 0;
}

/* 0; -1: for now there is nothing to be had. */
static int
accept_one(const struct listener *l)
{
	struct ask a = {.how = DIAL_DIRECT, .port = l->port, .name_len = l->name_len};
	struct dial *d;
	int fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0 && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
		return -1;
	if (fd < 0 || (d = dial_new(fd, (enum dial_front)l->front)) == NULL)
		return 0;
	accepted++;
	pause_for(PAUSE_US);
	if (l->front == FRONT_DIRECT) {
		memcpy(a.name, l->name, l->name_len);
		dial_ask(d, &a);
	}
	return 0;
}

static void
on_ready(void *arg, short revents)
{
	struct epoll_event e[ACCEPTS];
	int i, n = epoll_wait(ready.fd, e, ACCEPTS, 0);

	(void)arg;
	(void)revents;
	for (i = 0; i < n && dial_room() > 0 && accepted < ACCEPT_RATE; i++) {
		if (accept_one(e[i].data.ptr) < 0) {
			accepted = ACCEPT_RATE;
			timer_clear(&pause_timer);
			pause_for(SHORT_US);
		}
	}
	listen_go_on();
}

void
listen_start(const char *text, size_t len)
{
	static const uint8_t loopback[4] = {127, 0, 0, 1};
	int fd;

	listen_stop();
	memset(&result, 0, sizeof(result));
	complaint[0] = '\0';
	if ((fd = epoll_create1(EPOLL_CLOEXEC)) < 0) {
		result.failed = 1;
		snprintf(complaint, sizeof(complaint), "epoll: %s", strerror(errno));
	} else {
		loop_watch(&ready, fd, on_ready, NULL);
		listen_on(loopback, HTTP_PORT, FRONT_HTTP, NULL, 0);
		listen_on(loopback, SOCKS_PORT, FRONT_SOCKS, NULL, 0);
		listen_for_list(text, len);
		listen_go_on();
	}
	channel_clean_text(complaint);
	stream_send(G_LISTENS, 0, &result, sizeof(result), complaint, strlen(complaint));
}

void
listen_stop(void)
{
	struct listener *l;

	while ((l = listeners) != NULL) {
		listeners = l->next;
		close(l->fd);
		free(l);
	}
	nlisteners = 0;
	if (ready.fd < 0)
		return;
	loop_unwatch(&ready);
	close(ready.fd);
	ready.fd = -1;
}
