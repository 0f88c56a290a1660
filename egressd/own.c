/*
 * Asks the kernel for the route to one address. Comparing addresses is not enough: of several on
 * one interface only the first is a source, and a route can make any address local.
 */
#include "egressd/own.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include "common/log.h"

static int netlink = -1;
static uint32_t sequence;

void
own_start(void)
{
	netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (netlink == -1)
		fatal("netlink socket");
}

struct question {
	struct nlmsghdr head;
	struct rtmsg route;
	struct rtattr attr;
	uint8_t address[16];
};

static int
ask(const struct egress_addr *a)
{
	size_t n = a->family == 4 ? 4 : 16;
	struct question q = {
	    .head = {.nlmsg_len = (uint32_t)(offsetof(struct question, address) + n),
		.nlmsg_type = RTM_GETROUTE,
		.nlmsg_flags = NLM_F_REQUEST,
		.nlmsg_seq = ++sequence},
	    .route = {.rtm_family = a->family == 4 ? AF_INET : AF_INET6,
		.rtm_dst_len = (uint8_t)(8 * n)},
	    .attr = {.rta_len = (uint16_t)RTA_LENGTH(n), .rta_type = RTA_DST},
	};

	memcpy(q.address, a->byte, n);
	return send(netlink, &q, q.head.nlmsg_len, 0) == (ssize_t)q.head.nlmsg_len ? 0 : -1;
}

static const char *
kind_of(unsigned char type)
{
	switch (type) {
	case RTN_UNICAST:
		return NULL;
	case RTN_BROADCAST:
		return "broadcast";
	case RTN_MULTICAST:
		return "multicast";
	case RTN_ANYCAST:
		return "anycast";
	default:
		return "own";
	}
}

const char *
own_kind(const struct egress_addr *a, int *error)
{
	union {
		struct nlmsghdr head;
		uint8_t bytes[4096];
	} answer;
	ssize_t n;

	*error = 0;
	if (ask(a) == -1) {
		*error = errno;
		return NULL;
	}
	/* The kernel answers before send(2) returns; what is left of another question is passed
	 * over. */
	do
		n = recv(netlink, &answer, sizeof(answer), 0);
	while (n >= (ssize_t)sizeof(answer.head) && answer.head.nlmsg_seq != sequence);
	if (n >= (ssize_t)NLMSG_LENGTH(sizeof(struct rtmsg)) &&
	    answer.head.nlmsg_type == RTM_NEWROUTE)
		return kind_of(((const struct rtmsg *)NLMSG_DATA(&answer.head))->rtm_type);
	*error = EIO; /* it had no memory for an answer */
	if (n >= (ssize_t)NLMSG_LENGTH(sizeof(struct nlmsgerr)) &&
	    answer.head.nlmsg_type == NLMSG_ERROR &&
	    ((const struct nlmsgerr *)NLMSG_DATA(&answer.head))->error != 0)
		*error = -((const struct nlmsgerr *)NLMSG_DATA(&answer.head))->error;
	return NULL;
}
