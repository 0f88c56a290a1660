/* Ways out over the network that go past any proxy: interfaces, routes, addresses, sockets. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/if_packet.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <sys/socket.h>

#include "selftest/probe.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define REACH_MAX 192
#define PATIENCE_MS 1500

/* None may answer. Without an interface, none may even be waited for. */
static void
none_reached(struct reach *r, size_t n)
{
	int answered = 0;

	reach_all(r, n, PATIENCE_MS);
	for (size_t i = 0; i < n; i++) {
		if (r[i].error == 0)
			broken("%s: connected", r[i].text);
		else if (r[i].error == ECONNREFUSED || r[i].error == ECONNRESET)
			broken("%s: it answered", r[i].text);
		else if (r[i].error == ETIMEDOUT && (probe.mode & MODE_CUT) != 0)
			broken("%s: packets leave", r[i].text);
		else
			continue;
		answered++;
	}
	if (answered > 0 && probe.mode == MODE_BRIDGE)
		broken("load etc/agent-sandbox.nft, or set AGENT_SANDBOX_NETWORK_MODE=proxy");
	if (n > 0)
		holds("%zu tried; %s: %s", n, r[0].text, strerror(r[0].error));
	else
		skipped("there is nothing to try");
}

static void
try_all(const char *const *addresses, size_t n, const unsigned *ports, size_t nports)
{
	static struct reach r[REACH_MAX];
	size_t have = 0;

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < nports; k++)
			reach_add(r, &have, REACH_MAX, addresses[i], ports[k]);
	none_reached(r, have);
}

void
check_interfaces(void)
{
	char text[8192], names[256] = "", *line, *rest = text, name[32];
	int others = 0;

	if (read_text("/proc/net/dev", text, sizeof(text)) == -1) {
		broken("/proc/net/dev: %s", strerror(errno));
		return;
	}
	while ((line = strsep(&rest, "\n")) != NULL) {
		if (strchr(line, '|') != NULL || sscanf(line, " %31[^: ]", name) != 1)
			continue;
		/* Tunnels that the kernel makes in every namespace, which are down. */
		if (strcmp(name, "lo") != 0 && strstr(name, "tunl0") == NULL &&
		    strstr(name, "tnl0") == NULL && strncmp(name, "gre", 3) != 0 &&
		    strncmp(name, "erspan0", 7) != 0 && strstr(name, "_vti0") == NULL &&
		    strcmp(name, "sit0") != 0)
			others++;
		snprintf(names + strlen(names), sizeof(names) - strlen(names), " %s", name);
	}
	if (others > (probe.mode == MODE_BRIDGE))
		broken("interfaces:%s", names);
	holds("interfaces:%s", names);
}

void
check_routes(void)
{
	char text[16384], *line, *rest = text;
	int found = 0;

	if (read_text("/proc/net/route", text, sizeof(text)) == -1)
		broken("/proc/net/route: %s", strerror(errno));
	else {
		strsep(&rest, "\n");
		while ((line = strsep(&rest, "\n")) != NULL)
			if (*line != '\0') {
				broken("route: %.40s", line);
				found++;
			}
	}
	rest = text;
	if (read_text("/proc/net/ipv6_route", text, sizeof(text)) > 0)
		while ((line = strsep(&rest, "\n")) != NULL)
			if (*line != '\0' && strcmp(line + strlen(line) - 2, "lo") != 0) {
				broken("IPv6 route: %.40s", line);
				found++;
			}
	holds("%d routes but those of lo", found);
}

void
check_tcp(void)
{
	static const char *const addresses[] = {"1.1.1.1", "8.8.8.8", "9.9.9.9", "44.0.0.1",
	    "2606:4700:4700::1111", "2001:4860:4860::8888", "::ffff:1.1.1.1"};
	static const unsigned ports[] = {22, 53, 80, 443};

	try_all(addresses, COUNT(addresses), ports, COUNT(ports));
}

void
check_udp(void)
{
	static const char *const addresses[] = {"1.1.1.1:53", "8.8.8.8:123", "255.255.255.255:67",
	    "224.0.0.251:5353", "[2606:4700:4700::1111]:53", "[ff02::1]:5353"};
	struct icmphdr echo = {.type = ICMP_ECHO};
	struct sockaddr_storage to;
	socklen_t len;
	int s, on = 1;

	for (size_t i = 0; i < COUNT(addresses); i++) {
		len = reach_parse(addresses[i], &to);
		s = socket(to.ss_family, SOCK_DGRAM, 0);
		setsockopt(s, SOL_SOCKET, SO_BROADCAST, &on, sizeof(on));
		if (s != -1 && sendto(s, "x", 1, 0, (struct sockaddr *)&to, len) == 1)
			broken("%s: a datagram left", addresses[i]);
		close(s);
	}
	len = reach_parse("1.1.1.1:0", &to);
	s = socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP);
	if (s != -1 && sendto(s, &echo, sizeof(echo), 0, (struct sockaddr *)&to, len) > 0)
		broken("1.1.1.1: a ping left");
	holds("%zu addresses and a ping; the last: %s", COUNT(addresses), strerror(errno));
}

/* A question for the name servers of the root. Whether anything came back. */
static int
asked(const char *where)
{
	static const char question[] =
	    "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x01";
	struct sockaddr_storage to;
	socklen_t len = reach_parse(where, &to);
	int s = len > 0 ? socket(to.ss_family, SOCK_DGRAM, 0) : -1;
	struct pollfd p = {.fd = s, .events = POLLIN};
	char buf[512];
	int r = 0;

	if (s != -1 && connect(s, (struct sockaddr *)&to, len) == 0 &&
	    send(s, question, sizeof(question) - 1, 0) > 0 && poll(&p, 1, 1000) == 1)
		r = recv(s, buf, sizeof(buf), 0) > 0;
	if (s != -1)
		close(s);
	return r;
}

void
check_dns(void)
{
	char text[4096], where[80], address[64], *line, *rest = text;
	int n = 3;

	if (asked("127.0.0.11:53") || asked("127.0.0.1:53") || asked("127.0.0.53:53"))
		broken("a name server answers on loopback");
	if (read_text("/etc/resolv.conf", text, sizeof(text)) > 0)
		while ((line = strsep(&rest, "\n")) != NULL) {
			if (sscanf(line, "nameserver %63s", address) != 1)
				continue;
			snprintf(where, sizeof(where), strchr(address, ':') ? "[%s]:53" : "%s:53",
			    address);
			n++;
			if (asked(where))
				broken("the name server %s answers", address);
		}
	if (asked("1.1.1.1:53") || asked("8.8.8.8:53"))
		broken("a public name server answers");
	holds("%d name servers asked, none answered", n + 2);
}

void
check_metadata(void)
{
	static const char *const addresses[] = {"169.254.169.254", "169.254.170.2",
	    "169.254.170.23", "168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254",
	    "fd20:ce::254"};
	static const unsigned ports[] = {80};

	try_all(addresses, COUNT(addresses), ports, COUNT(ports));
}

/* The gateway of the default route, if there is one. */
static int
gateway(char text[INET_ADDRSTRLEN])
{
	char routes[8192], *line, *rest = routes;
	unsigned to, via;

	if (read_text("/proc/net/route", routes, sizeof(routes)) <= 0)
		return -1;
	while ((line = strsep(&rest, "\n")) != NULL)
		if (sscanf(line, "%*s %x %x", &to, &via) == 2 && to == 0 && via != 0) {
			inet_ntop(AF_INET, &via, text, INET_ADDRSTRLEN);
			return 0;
		}
	return -1;
}

void
check_host(void)
{
	static const unsigned ports[] = {22, 53, 80, 443, 2375, 2376, 8080};
	static struct reach r[REACH_MAX];
	char text[INET_ADDRSTRLEN];
	size_t n = 0;

	if (gateway(text) == 0)
		for (size_t i = 0; i < COUNT(ports); i++)
			reach_add(r, &n, REACH_MAX, text, ports[i]);
	for (size_t i = 0; i < probe.own.n; i++)
		for (size_t k = 0; k < COUNT(ports); k++)
			reach_add(r, &n, REACH_MAX, probe.own.v[i], ports[k]);
	for (size_t i = 0; i < probe.near.n && n < REACH_MAX; i++) {
		snprintf(r[n].text, sizeof(r[n].text), "%s", probe.near.v[i]);
		r[n++].fd = -1;
	}
	none_reached(r, n);
}

void
check_private_networks(void)
{
	static const char *const addresses[] = {"10.0.0.1", "10.255.255.254", "172.16.0.1",
	    "172.17.0.1", "192.168.0.1", "192.168.1.1", "192.168.255.254", "100.64.0.1",
	    "169.254.1.1", "198.18.0.1", "fd00::1", "fe80::1", "64:ff9b::a00:1"};
	static const unsigned ports[] = {22, 80, 443};

	try_all(addresses, COUNT(addresses), ports, COUNT(ports));
}

void
check_neighbours(void)
{
	struct reach r = {.fd = -1};

	if (probe.neighbour == NULL) {
		skipped("there is no second sandbox");
		return;
	}
	snprintf(r.text, sizeof(r.text), "%s", probe.neighbour);
	none_reached(&r, 1);
}

void
check_raw_sockets(void)
{
	filtered("raw ICMP", socket(AF_INET, SOCK_RAW, IPPROTO_ICMP));
	filtered("raw TCP", socket(AF_INET, SOCK_RAW, IPPROTO_TCP));
	filtered("raw IP", socket(AF_INET, SOCK_RAW, IPPROTO_RAW));
	filtered("raw ICMPv6", socket(AF_INET6, SOCK_RAW, IPPROTO_ICMPV6));
	filtered("packet", socket(AF_PACKET, SOCK_RAW, htons(3)));
	filtered("packet without headers", socket(AF_PACKET, SOCK_DGRAM, htons(3)));
	filtered("old packet", socket(AF_INET, SOCK_PACKET, htons(3)));
	holds("7 kinds: %s", strerror(EPERM));
}

void
check_socket_families(void)
{
	char what[32];
	int n = 0;

	for (int family = 3; family < 64; family++) {
		if (family == AF_INET6 || family == AF_NETLINK)
			continue;
		snprintf(what, sizeof(what), "family %d", family);
		filtered(what, socket(family, SOCK_STREAM, 0));
		filtered(what, socket(family, SOCK_DGRAM, 0));
		filtered(what, socket(family, SOCK_SEQPACKET, 0));
		n++;
	}
	for (int protocol = 1; protocol < 32; protocol++) {
		snprintf(what, sizeof(what), "netlink %d", protocol);
		filtered(what, socket(AF_NETLINK, SOCK_RAW, protocol));
	}
	filtered("SCTP", socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP));
	filtered("MPTCP", socket(AF_INET, SOCK_STREAM, 262));
	filtered("UDP-Lite", socket(AF_INET, SOCK_DGRAM, IPPROTO_UDPLITE));
	holds("%d families (vsock, AF_ALG, ...), 31 netlink protocols, SCTP, MPTCP: %s", n,
	    strerror(EPERM));
}

/* A request to change something; what the kernel says to it: 0 is done. */
static int
change(int s, uint16_t type, const void *body, size_t len)
{
	struct {
		struct nlmsghdr head;
		char body[64];
	} m = {.head = {.nlmsg_len = (uint32_t)NLMSG_LENGTH(len),
		   .nlmsg_type = type,
		   .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE}};
	struct {
		struct nlmsghdr head;
		struct nlmsgerr error;
		char rest[512];
	} a;

	memcpy(m.body, body, len);
	if (send(s, &m, m.head.nlmsg_len, 0) == -1)
		return errno;
	if (recv(s, &a, sizeof(a), 0) < (ssize_t)sizeof(a.head) + 4 ||
	    a.head.nlmsg_type != NLMSG_ERROR)
		return EPROTO;
	return -a.error.error;
}

void
check_netlink(void)
{
	struct ifinfomsg link = {.ifi_family = AF_UNSPEC, .ifi_index = 1};
	struct ifaddrmsg address = {.ifa_family = AF_INET, .ifa_prefixlen = 24, .ifa_index = 1};
	struct rtmsg route = {.rtm_family = AF_INET,
	    .rtm_table = RT_TABLE_MAIN,
	    .rtm_protocol = RTPROT_BOOT,
	    .rtm_type = RTN_UNICAST};
	struct timeval tv = {5, 0};
	int s = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE), e[3];

	if (s == -1) {
		holds("no netlink socket: %s", strerror(errno));
		return;
	}
	setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	e[0] = change(s, RTM_NEWLINK, &link, sizeof(link));
	e[1] = change(s, RTM_NEWADDR, &address, sizeof(address));
	e[2] = change(s, RTM_NEWROUTE, &route, sizeof(route));
	for (int i = 0; i < 3; i++)
		if (e[i] != EPERM)
			broken("%s: %s",
			    i == 0   ? "link"
			    : i == 1 ? "address"
				     : "route",
			    strerror(e[i]));
	holds("link, address, route: %s", strerror(EPERM));
}

void
check_abstract_sockets(void)
{
	char *text = calloc(1, 1 << 20), *line, *rest = text, *at;
	int n = 0;

	if (text == NULL || read_text("/proc/net/unix", text, 1 << 20) == -1) {
		broken("/proc/net/unix: %s", strerror(errno));
		return;
	}
	strsep(&rest, "\n");
	while ((line = strsep(&rest, "\n")) != NULL && *line != '\0') {
		n++;
		if ((at = strchr(line, '@')) != NULL)
			broken("%s", at);
	}
	holds("%d unix sockets in this network namespace, none with an abstract name", n);
}

/* A listener's address in the hex of /proc; whether it is one of the sandbox's own. */
static int
listener_is_ours(const char *file, const char *address, unsigned port)
{
	uint32_t v4 = strlen(address) == 8 ? (uint32_t)strtoul(address, NULL, 16) : 0;

	v4 = ntohl(v4);
	if (probe.mode == MODE_BRIDGE) /* the engine's name server */
		return v4 == 0x7f00000b;
	if (probe.mode == MODE_NONE || strstr(file, "tcp") == NULL)
		return 0;
	return (v4 == 0x7f000001 && (port == 3128 || port == 1080)) || v4 >> 16 == 0x7f40;
}

void
check_listeners(void)
{
	static const char *const files[] = {"/proc/net/tcp", "/proc/net/tcp6", "/proc/net/udp",
	    "/proc/net/udp6", "/proc/net/raw", "/proc/net/raw6"};
	char text[65536], *line, *rest, address[40];
	unsigned port, state;
	int ours = 0;

	for (size_t i = 0; i < COUNT(files); i++) {
		rest = text;
		if (read_text(files[i], text, sizeof(text)) <= 0)
			continue;
		strsep(&rest, "\n");
		while ((line = strsep(&rest, "\n")) != NULL) {
			if (sscanf(line, " %*d: %39[0-9A-F]:%x %*s %x", address, &port, &state) !=
			    3)
				continue;
			if (strstr(files[i], "tcp") != NULL && state != 10)
				continue;
			if (listener_is_ours(files[i], address, port))
				ours++;
			else
				broken("%s: %s:%u", files[i], address, port);
		}
	}
	holds("%d listen, all of them known", ours);
}
