/*
 * The resolver: c-ares with its sockets in our loop. It was told before the confinement all that it
 * would otherwise look up in files, and makes its sockets through the functions below, in the only
 * shape that the system call filter lets pass.
 *
 * Whoever owns a name can have answers that need TCP, and name servers close such connections as
 * they like, which c-ares takes for an error of everything that it asked that server. So what needs
 * TCP is asked on a channel of its own, where it can only harm its like.
 */
#include "egressd/resolve.h"

#include <bsd/string.h>
#include <bsd/sys/queue.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <ares.h>
#include <event2/event.h>

#include "common/items.h"
#include "common/log.h"

#define SERVERS_MAX 3
#define TRY_MS 1500
#define TRIES 2
#define LONG_TRY_MS 5000
#define SHORT_TRIES 5
#define EDNS_BYTES 1232 /* what passes without fragments */

struct lookup {
	LIST_ENTRY(lookup) entry;
	struct lookup **slot;
	resolve_done done;
	void (*over)(void *);
	void *arg;
	int asked;
	int long_answer; /* does not fit in a datagram, perhaps */
	char name[EGRESS_NAME_MAX + 1];
};

struct channel {
	ares_channel ares;
	struct event *timer;
};

/* A socket of c-ares on our loop. */
struct watch {
	LIST_ENTRY(watch) entry;
	struct channel *channel;
	ares_socket_t fd;
	struct event *event;
};

static LIST_HEAD(, lookup) lookups = LIST_HEAD_INITIALIZER(lookups);
static LIST_HEAD(, watch) watches = LIST_HEAD_INITIALIZER(watches);
static struct channel datagrams, streams;
static struct event_base *base;
static int have_servers, renewing;

static ares_socket_t
sock_open(int family, int type, int protocol, void *arg)
{
	(void)protocol;
	(void)arg;
	return socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

static int
sock_close(ares_socket_t fd, void *arg)
{
	(void)arg;
	return close(fd);
}

static int
sock_connect(ares_socket_t fd, const struct sockaddr *sa, ares_socklen_t len, void *arg)
{
	(void)arg;
	return connect(fd, sa, len);
}

static ares_ssize_t
sock_recvfrom(ares_socket_t fd, void *data, size_t n, int flags, struct sockaddr *from,
    ares_socklen_t *len, void *arg)
{
	(void)arg;
	return recvfrom(fd, data, n, flags, from, len);
}

static ares_ssize_t
sock_sendv(ares_socket_t fd, const struct iovec *iov, int n, void *arg)
{
	(void)arg;
	return writev(fd, iov, n);
}

static const struct ares_socket_functions functions = {
    sock_open, sock_close, sock_connect, sock_recvfrom, sock_sendv};

/* When c-ares next wants to be called without being asked. */
static void
set_timer(struct channel *c)
{
	struct timeval tv;

	event_del(c->timer);
	if (ares_timeout(c->ares, NULL, &tv) != NULL && event_add(c->timer, &tv) == -1)
		fatalx("event_add");
}

static void
on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct channel *c = arg;

	(void)fd;
	(void)what;
	ares_process_fd(c->ares, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	set_timer(c);
}

static void
on_socket(evutil_socket_t fd, short what, void *arg)
{
	struct channel *c = arg;

	ares_process_fd(
	    c->ares, what & EV_READ ? fd : ARES_SOCKET_BAD, what & EV_WRITE ? fd : ARES_SOCKET_BAD);
	set_timer(c);
}

static struct watch *
watch_of(struct channel *c, ares_socket_t fd)
{
	struct watch *w;

	LIST_FOREACH (w, &watches, entry)
		if (w->fd == fd)
			return w;
	if ((w = calloc(1, sizeof(*w))) == NULL ||
	    (w->event = event_new(base, fd, EV_READ | EV_PERSIST, on_socket, c)) == NULL)
		fatalx("resolver: out of memory");
	w->fd = fd;
	LIST_INSERT_HEAD(&watches, w, entry);
	return w;
}

/* c-ares waits for other things on this socket; for nothing: it is about to close it. */
static void
on_state(void *arg, ares_socket_t fd, int readable, int writable)
{
	struct watch *w = watch_of(arg, fd);
	short what = EV_PERSIST;

	event_del(w->event);
	if (!readable && !writable) {
		LIST_REMOVE(w, entry);
		event_free(w->event);
		free(w);
		return;
	}
	what |= (short)((readable ? EV_READ : 0) | (writable ? EV_WRITE : 0));
	if (event_assign(w->event, base, fd, what, on_socket, arg) == -1 ||
	    event_add(w->event, NULL) == -1)
		fatalx("resolver: event");
}

static void
channel_init(struct channel *c, int flags)
{
	struct ares_options options = {
	    .flags = flags | ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES | ARES_FLAG_EDNS,
	    .timeout = TRY_MS,
	    .tries = TRIES,
	    .ndots = 1,
	    .ednspsz = EDNS_BYTES,
	    .lookups = (char[]){"b"},
	    .sock_state_cb = on_state,
	    .sock_state_cb_data = c,
	};
	int r;

	/* No servers, domains and sort order are settings too: what is left out is read in files.
	 */
	r = ares_init_options(&c->ares, &options,
	    ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_NDOTS |
		ARES_OPT_EDNSPSZ | ARES_OPT_LOOKUPS | ARES_OPT_SOCK_STATE_CB | ARES_OPT_SERVERS |
		ARES_OPT_DOMAINS | ARES_OPT_SORTLIST);
	if (r != ARES_SUCCESS)
		fatalx("resolver: %s", ares_strerror(r));
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* of c-ares 1.34 */
	ares_set_socket_functions(c->ares, &functions, NULL);
#pragma GCC diagnostic pop
}

void
resolve_init(void)
{
	int r = ares_library_init(ARES_LIB_INIT_ALL);

	if (r != ARES_SUCCESS)
		fatalx("resolver: %s", ares_strerror(r));
	channel_init(&datagrams, ARES_FLAG_IGNTC);
	channel_init(&streams, ARES_FLAG_USEVC);
}

void
resolve_start(struct event_base *b)
{
	base = b;
	if ((datagrams.timer = evtimer_new(base, on_timer, &datagrams)) == NULL ||
	    (streams.timer = evtimer_new(base, on_timer, &streams)) == NULL)
		fatalx("resolver: out of memory");
}

static enum reason
reason_of(int status)
{
	switch (status) {
	case ARES_SUCCESS:
	case ARES_ENOTFOUND:
	case ARES_ENODATA:
	case ARES_EBADNAME:
		return REASON_NOT_FOUND;
	case ARES_ETIMEOUT:
		return REASON_SILENT;
	case ARES_ENOMEM:
		return REASON_NO_MEMORY;
	default:
		return REASON_NO_ANSWER;
	}
}

/* The addresses of one family. */
static void
collect(const struct ares_addrinfo *ai, int family, struct resolved *out)
{
	const struct ares_addrinfo_node *node;
	const struct sockaddr_in *sin;
	const struct sockaddr_in6 *sin6;

	for (node = ai->nodes; node != NULL && out->n < RESOLVE_ADDRESSES; node = node->ai_next) {
		if (node->ai_family != family)
			continue;
		sin = (const void *)node->ai_addr;
		sin6 = (const void *)node->ai_addr;
		if (family == AF_INET)
			egress_addr(&out->addr[out->n++], &sin->sin_addr, 4);
		else
			egress_addr(&out->addr[out->n++], &sin6->sin6_addr, 16);
	}
}

static void
finish(struct lookup *l, const struct resolved *r)
{
	LIST_REMOVE(l, entry);
	if (l->over != NULL)
		l->over(l->arg);
	else {
		*l->slot = NULL;
		l->done(l->arg, r);
	}
	free(l);
}

static void ask(struct lookup *);

static void
on_answer(void *arg, int status, int timeouts, struct ares_addrinfo *ai)
{
	struct lookup *l = arg;
	struct resolved r = {.reason = reason_of(status)};

	(void)timeouts;
	if (renewing && l->over == NULL) {
		l->asked = 0;
		return;
	}
	if (status == ARES_SUCCESS && ai != NULL) {
		collect(ai, AF_INET, &r);
		collect(ai, AF_INET6, &r);
		if (r.n > 0)
			r.reason = REASON_NONE;
	}
	if (ai != NULL)
		ares_freeaddrinfo(ai);
	/* An answer that was cut off, and one that has no address, look the same here. */
	if ((status == ARES_SUCCESS || status == ARES_ENODATA) && r.n == 0 && !l->long_answer &&
	    l->over == NULL) {
		l->long_answer = 1;
		ask(l);
		return;
	}
	finish(l, &r);
}

/* l may be over, and freed, when this returns. */
static void
ask(struct lookup *l)
{
	const struct ares_addrinfo_hints hints = {
	    .ai_flags = ARES_AI_NOSORT, .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
	const struct resolved none = {.reason = REASON_NO_RESOLVER};
	struct channel *c = l->long_answer ? &streams : &datagrams;

	l->asked = 1;
	if (!have_servers) {
		finish(l, &none);
		return;
	}
	ares_getaddrinfo(c->ares, l->name, NULL, &hints, on_answer, l);
	set_timer(c);
}

void
resolve_name(const char *name, struct lookup **slot, resolve_done done, void *arg)
{
	struct lookup *l = calloc(1, sizeof(*l));

	if (l == NULL) {
		done(arg, &(struct resolved){.reason = REASON_NO_MEMORY});
		return;
	}
	strlcpy(l->name, name, sizeof(l->name));
	l->slot = slot;
	l->done = done;
	l->arg = arg;
	*slot = l;
	LIST_INSERT_HEAD(&lookups, l, entry);
	ask(l);
}

void
resolve_abandon(struct lookup *l, void (*over)(void *), void *arg)
{
	*l->slot = NULL;
	l->over = over;
	l->arg = arg;
}

/* One "ADDRESS[#PORT]" as c-ares writes it; 0: it is none. */
static int
server_text(const char *item, size_t n, char *out, size_t room)
{
	const char *mark = memchr(item, '#', n), *why;
	struct egress_entry e;
	char text[EGRESS_ADDR_TEXT];
	long port = 53;

	if (mark != NULL)
		port = strtol(mark + 1, NULL, 10);
	if (egress_entry(item, mark != NULL ? (size_t)(mark - item) : n, &e, &why) == -1 ||
	    e.kind != EGRESS_NET || port < 1 || port > UINT16_MAX)
		return 0;
	egress_addr_text(&e.addr, text);
	snprintf(out, room, e.addr.family == 6 ? "[%s]:%ld" : "%s:%ld", text, port);
	return 1;
}

/* It takes new servers only while nothing is being asked. */
static void
channel_servers(struct channel *c, const char *csv)
{
	renewing = 1;
	ares_cancel(c->ares);
	renewing = 0;
	if (have_servers && ares_set_servers_ports_csv(c->ares, csv) != ARES_SUCCESS)
		fatalx("resolver: cannot take the name servers %s", csv);
}

void
resolve_servers(const char *list)
{
	char csv[SERVERS_MAX * 64] = "", one[64];
	struct lookup *l;
	const char *item;
	size_t n;
	int servers = 0;

	while (servers < SERVERS_MAX && (item = items_next(&list, &n)) != NULL) {
		if (!server_text(item, n, one, sizeof(one))) {
			log_warnx(
			    "resolver: \"%.*s\" is no address of a name server", (int)n, item);
			continue;
		}
		if (servers++ > 0)
			strlcat(csv, ",", sizeof(csv));
		strlcat(csv, one, sizeof(csv));
	}
	log_debug("name servers: %s", servers > 0 ? csv : "none");
	have_servers = servers > 0;
	channel_servers(&datagrams, csv);
	channel_servers(&streams, csv);
	do {
		LIST_FOREACH (l, &lookups, entry)
			if (!l->asked)
				break;
		if (l != NULL)
			ask(l);
	} while (l != NULL);
	set_timer(&datagrams);
	set_timer(&streams);
}
