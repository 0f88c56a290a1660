/* Connects to the addresses of a name, one after the other, and to none that is our own. */
#include "egressd/dial.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/log.h"
#include "egressd/own.h"

#define SECOND INT64_C(1000000)
#define TRY_US (5 * SECOND)   /* for one address while there are others */
#define LAST_US (10 * SECOND) /* for the last */

union sockaddrs {
	struct sockaddr sa;
	struct sockaddr_in sin;
	struct sockaddr_in6 sin6;
};

static socklen_t
sockaddr_of(const struct egress_addr *a, uint16_t port, union sockaddrs *out)
{
	memset(out, 0, sizeof(*out));
	if (a->family == 4) {
		out->sin.sin_family = AF_INET;
		out->sin.sin_port = htons(port);
		memcpy(&out->sin.sin_addr, a->byte, 4);
		return sizeof(out->sin);
	}
	out->sin6.sin6_family = AF_INET6;
	out->sin6.sin6_port = htons(port);
	memcpy(&out->sin6.sin6_addr, a->byte, 16);
	return sizeof(out->sin6);
}

static enum reason
reason_of(int error)
{
	switch (error) {
	case ECONNREFUSED:
		return REASON_CONN_REFUSED;
	case ENETUNREACH:
	case EHOSTUNREACH:
	case EINVAL: /* a route that is a black hole */
	case EADDRNOTAVAIL:
	case EAFNOSUPPORT:
		return REASON_UNREACHABLE;
	case ETIMEDOUT:
		return REASON_TIMED_OUT;
	case ECONNRESET:
		return REASON_RESET;
	case EMFILE:
	case ENFILE:
		return REASON_SERVER_FULL;
	default:
		return REASON_NO_CONNECT;
	}
}

/* By name only: a CIDR around it means others. For loopback all are our own. */
static int
own_is_listed(const struct dial *d, const struct egress_addr *a)
{
	const struct egress_range *range = egress_address_range(a);
	int exact = range == NULL || strcmp(range->reason, "loopback") != 0;

	return dial_opens(d, a, exact);
}

/* What is told in the end is the last try that says something of the host. */
static void
remember(struct dial *d, const struct egress_addr *a, enum reason reason)
{
	if (reason == REASON_UNREACHABLE && d->last != REASON_NONE)
		return;
	d->last = reason;
	egress_addr_text(a, d->address);
}

static void
on_connecting(evutil_socket_t fd, short what, void *arg)
{
	static const int one = 1;
	struct dial *d = arg;
	socklen_t len = sizeof(int);
	int error = 0;

	(void)what;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) == -1)
		error = errno;
	if (error != 0) {
		connect_failed(d, reason_of(error));
		return;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	egress_addr_text(&d->try[d->next - 1], d->address);
	dial_connected(d);
	relay_start(d);
}

/* One address: REASON_NONE when it is under way. */
static enum reason
begin(struct dial *d, const struct egress_addr *a)
{
	union sockaddrs to;
	socklen_t len = sockaddr_of(a, d->port, &to);
	int error;
	const char *kind = own_kind(a, &error);

	if (error != 0)
		return reason_of(error);
	if (kind != NULL && !own_is_listed(d, a)) {
		d->kind = kind;
		return REASON_NOT_PUBLIC;
	}
	d->outside = socket(
	    a->family == 4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (d->outside == -1)
		return reason_of(errno);
	if (connect(d->outside, &to.sa, len) == -1 && errno != EINPROGRESS)
		return reason_of(errno);
	if (event_assign(&d->connecting, egressd.base, d->outside, EV_WRITE, on_connecting, d) ==
		-1 ||
	    event_add(&d->connecting, NULL) == -1)
		fatalx("event_add");
	return REASON_NONE;
}

void
connect_next(struct dial *d)
{
	const struct egress_addr *a;
	enum reason reason;

	d->state = DIAL_CONNECTING;
	while (d->next < d->ntry) {
		a = &d->try[d->next++];
		if ((reason = begin(d, a)) == REASON_NONE) {
			d->step_until = egressd_now() + (d->next < d->ntry ? TRY_US : LAST_US);
			dial_schedule(d);
			return;
		}
		remember(d, a, reason);
		if (d->outside != -1)
			close(d->outside);
		d->outside = -1;
	}
	dial_end(d, d->last);
}

void
connect_failed(struct dial *d, enum reason reason)
{
	remember(d, &d->try[d->next - 1], reason);
	event_del(&d->connecting);
	close(d->outside);
	d->outside = -1;
	connect_next(d);
}
