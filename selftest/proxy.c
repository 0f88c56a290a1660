/* Addresses that the proxies of the sandbox must refuse, in every form that they take them; and how
 * a proxy is asked. */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>

#include "selftest/probe.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define HTTP_PROXY "127.0.0.1:3128"
#define SOCKS_PROXY "127.0.0.1:1080"
#define PATIENCE_MS 25000
#define PACE_US 12000 /* so that the limit of connections a second stays away */
#define TRIES 20

const char *
visible(const char *host, size_t len)
{
	static char out[2][200];
	static int turn;
	char *p = out[turn ^= 1], *start = p;

	for (size_t i = 0; i < len && (size_t)(p - start) < sizeof(out[0]) - 8; i++)
		if (host[i] > ' ' && host[i] < 0x7f)
			*p++ = host[i];
		else
			p += sprintf(p, "\\x%02x", (unsigned char)host[i]);
	*p = '\0';
	if (len > 60 && (size_t)(p - start) > 60)
		snprintf(start + 50, 40, "... (%zu bytes)", len);
	return start;
}

void
answer_close(struct answer *a)
{
	if (a->fd != -1)
		close(a->fd);
	a->fd = -1;
}

static int
send_all(int fd, const void *data, size_t len)
{
	const char *p = data;
	ssize_t n;

	for (; len > 0; p += n, len -= (size_t)n)
		if ((n = send(fd, p, len, MSG_NOSIGNAL)) <= 0)
			return -1;
	return 0;
}

/* Head, and what comes behind it; of a yes to CONNECT nothing comes, and it stays open. */
static void
read_http(struct answer *a, int tunnel)
{
	char buf[8192], *body = NULL;
	size_t n = 0;
	ssize_t got;

	while (n < sizeof(buf) - 1 && (got = recv(a->fd, buf + n, sizeof(buf) - 1 - n, 0)) > 0) {
		n += (size_t)got;
		buf[n] = '\0';
		body = strstr(buf, "\r\n\r\n");
		if (body != NULL && tunnel && strncmp(buf + 8, " 2", 2) == 0)
			break;
	}
	buf[n] = '\0';
	if (strncmp(buf, "HTTP/1.", 7) == 0)
		a->status = atoi(buf + 9);
	if (body != NULL)
		snprintf(
		    a->text, sizeof(a->text), "%.*s", (int)strcspn(body + 4, "\r\n"), body + 4);
	if (!tunnel || a->status / 100 != 2)
		answer_close(a);
}

static void
ask(struct answer *a, const char *where, const char *request, size_t len, int tunnel)
{
	for (int i = 0; i < TRIES; i++) {
		usleep(i == 0 ? PACE_US : 300000);
		memset(a, 0, sizeof(*a));
		a->status = -1;
		if ((a->fd = reach_one(where, PATIENCE_MS)) == -1) {
			snprintf(a->text, sizeof(a->text), "%s: %s", where, strerror(errno));
			return;
		}
		if (send_all(a->fd, request, len) == -1)
			snprintf(a->text, sizeof(a->text), "it was closed");
		read_http(a, tunnel);
		if (strstr(a->text, "too many connections") == NULL)
			return;
		answer_close(a);
	}
}

void
ask_http(struct answer *a, const char *where, const char *request, size_t len)
{
	ask(a, where != NULL ? where : HTTP_PROXY, request, len, 0);
}

void
ask_connect(struct answer *a, const char *host, size_t len, unsigned port)
{
	char request[2048], tail[64];
	size_t n = sizeof("CONNECT ") - 1;
	int t = snprintf(tail, sizeof(tail), ":%u HTTP/1.1\r\n\r\n", port);

	memcpy(request, "CONNECT ", n);
	memcpy(request + n, host, len);
	memcpy(request + n + len, tail, (size_t)t);
	ask(a, HTTP_PROXY, request, n + len + (size_t)t, 1);
}

void
ask_socks(struct answer *a, int command, int type, const void *host, size_t len, unsigned port)
{
	unsigned char m[300] = {5, (unsigned char)command, 0, (unsigned char)type}, r[10];
	size_t n = 4;

	usleep(PACE_US);
	memset(a, 0, sizeof(*a));
	a->status = -1;
	if ((a->fd = reach_one(SOCKS_PROXY, PATIENCE_MS)) == -1) {
		snprintf(a->text, sizeof(a->text), "%s: %s", SOCKS_PROXY, strerror(errno));
		return;
	}
	if (type == 3)
		m[n++] = (unsigned char)len;
	memcpy(m + n, host, len);
	n += len;
	m[n++] = (unsigned char)(port >> 8);
	m[n++] = (unsigned char)port;
	if (send_all(a->fd, "\5\1\0", 3) == 0 && recv(a->fd, r, 2, MSG_WAITALL) == 2 &&
	    send_all(a->fd, m, n) == 0 && recv(a->fd, r, sizeof(r), MSG_WAITALL) == sizeof(r))
		a->status = r[1];
	if (a->status != 0)
		answer_close(a);
}

/* An address of each kind that is not public, with egressd's word for it. The probe's own list: it
 * must not be that of the program it tests. */
struct range {
	const char *address, *word;
};

static const struct range ranges4[] = {
    {"127.0.0.1", "loopback"},
    {"127.64.0.1", "loopback"},
    {"127.255.255.254", "loopback"},
    {"0.0.0.0", "unspecified"},
    {"0.0.0.1", "unspecified"},
    {"10.0.0.1", "private"},
    {"10.255.255.254", "private"},
    {"172.16.0.1", "private"},
    {"172.31.255.254", "private"},
    {"192.168.0.1", "private"},
    {"100.64.0.1", "shared"},
    {"100.127.255.254", "shared"},
    {"169.254.1.1", "link-local"},
    {"169.254.169.254", "metadata"},
    {"169.254.170.2", "metadata"},
    {"169.254.170.23", "metadata"},
    {"168.63.129.16", "metadata"},
    {"100.100.100.200", "metadata"},
    {"192.0.0.192", "metadata"},
    {"192.0.0.8", "reserved"},
    {"192.0.2.1", "documentation"},
    {"192.88.99.1", "translated"},
    {"198.18.0.1", "benchmarking"},
    {"198.19.255.254", "benchmarking"},
    {"198.51.100.1", "documentation"},
    {"203.0.113.1", "documentation"},
    {"224.0.0.1", "multicast"},
    {"239.255.255.255", "multicast"},
    {"240.0.0.1", "reserved"},
    {"255.255.255.255", "broadcast"},
};

static const struct range ranges6[] = {
    {"[::1]", "loopback"},
    {"[::]", "unspecified"},
    {"[::2]", "reserved"},
    {"[::127.0.0.1]", "reserved"},
    {"[::ffff:0:7f00:1]", "translated"},
    {"[64:ff9b::7f00:1]", "translated"},
    {"[64:ff9b::a9fe:a9fe]", "translated"},
    {"[64:ff9b:1::a00:1]", "translated"},
    {"[100::1]", "reserved"},
    {"[100:0:0:1::1]", "reserved"},
    {"[2001::1]", "translated"},
    {"[2001:0:4136:e378:8000:63bf:3fff:fdd2]", "translated"},
    {"[2001:2::1]", "benchmarking"},
    {"[2001:10::1]", "reserved"},
    {"[2001:db8::1]", "documentation"},
    {"[2002:7f00:1::]", "translated"},
    {"[2002:a9fe:a9fe::1]", "translated"},
    {"[3fff::1]", "documentation"},
    {"[fc00::1]", "private"},
    {"[fd12:3456:789a::1]", "private"},
    {"[fd00:ec2::254]", "metadata"},
    {"[fd00:ec2::23]", "metadata"},
    {"[fd20:ce::254]", "metadata"},
    {"[fe80::1]", "link-local"},
    {"[fec0::1]", "site-local"},
    {"[ff02::1]", "multicast"},
    {"[1000::1]", "reserved"},
    {"[4000::1]", "reserved"},
    {"[8000::1]", "reserved"},
};

static const struct range mapped[] = {
    {"[127.0.0.1]", "loopback"},
    {"[::ffff:127.0.0.1]", "loopback"},
    {"[::ffff:7f00:1]", "loopback"},
    {"[0:0:0:0:0:ffff:7f00:0001]", "loopback"},
    {"[::ffff:10.0.0.1]", "private"},
    {"[::FFFF:169.254.169.254]", "metadata"},
    {"[::ffff:a9fe:a9fe]", "metadata"},
    {"[::ffff:0.0.0.0]", "unspecified"},
    {"[::ffff:192.168.0.1]", "private"},
};

/* word NULL: any. Where the list is the operator's it may be refused as not in that, too. */
static int
refused_as(const struct answer *a, const char *word)
{
	char want[64];

	snprintf(want, sizeof(want), "is not public (%s%s", word != NULL ? word : "",
	    word != NULL ? ")" : "");
	return a->status == 403 &&
	       (strstr(a->text, want) != NULL ||
		   (probe.mode == MODE_PROXY && strstr(a->text, "not in the ") != NULL));
}

static void
must_be_refused(const char *form, const char *address, const char *word, struct answer *a)
{
	if (!refused_as(a, word))
		broken("%s %s: %d %.80s, not \"is not public (%s)\"", form, address, a->status,
		    a->text, word);
	answer_close(a);
}

static void
try_ranges(const struct range *ranges, size_t n)
{
	struct answer a = {0};

	for (size_t i = 0; i < n; i++) {
		ask_connect(
		    &a, ranges[i].address, strlen(ranges[i].address), i % 2 == 0 ? 443 : 80);
		must_be_refused("CONNECT", ranges[i].address, ranges[i].word, &a);
	}
	holds("%zu addresses; the last: %s", n, a.text);
}

void
check_proxy_ranges4(void)
{
	try_ranges(ranges4, COUNT(ranges4));
}

void
check_proxy_ranges6(void)
{
	try_ranges(ranges6, COUNT(ranges6));
}

void
check_proxy_mapped(void)
{
	try_ranges(mapped, COUNT(mapped));
}

void
check_proxy_own(void)
{
	char host[80];
	struct answer a = {0};

	for (size_t i = 0; i < probe.own.n; i++) {
		snprintf(host, sizeof(host), strchr(probe.own.v[i], ':') ? "[%s]" : "%s",
		    probe.own.v[i]);
		ask_connect(&a, host, strlen(host), 443);
		if (!refused_as(&a, NULL))
			broken("%s: %d %.80s", host, a.status, a.text);
		answer_close(&a);
	}
	if (probe.own.n == 0)
		skipped("the server's addresses are not known");
	else
		holds("%zu addresses; the last: %s", probe.own.n, a.text);
}

void
check_proxy_absolute(void)
{
	static const struct range some[] = {{"127.0.0.1", "loopback"},
	    {"169.254.169.254", "metadata"}, {"10.0.0.1", "private"}, {"[::1]", "loopback"},
	    {"[::ffff:127.0.0.1]", "loopback"}, {"[fd00:ec2::254]", "metadata"}};
	struct answer a = {0};
	char request[256];
	int n;

	for (size_t i = 0; i < COUNT(some); i++) {
		n = snprintf(request, sizeof(request),
		    "GET http://%s/latest/meta-data/ HTTP/1.1\r\nHost: %s\r\n\r\n", some[i].address,
		    some[i].address);
		ask_http(&a, NULL, request, (size_t)n);
		must_be_refused("GET", some[i].address, some[i].word, &a);
	}
	holds("%zu URLs, as after a redirect; the last: %s", COUNT(some), a.text);
}

void
check_proxy_socks(void)
{
	static const char *const addresses[] = {"127.0.0.1", "10.0.0.1", "169.254.169.254",
	    "192.168.0.1", "0.0.0.0", "::1", "::ffff:127.0.0.1", "fd00:ec2::254", "fe80::1",
	    "64:ff9b::a00:1", "2002:7f00:1::", "2001::1"};
	unsigned char bytes[16];
	struct answer a;
	size_t len;
	int six;

	for (size_t i = 0; i < COUNT(addresses); i++) {
		six = strchr(addresses[i], ':') != NULL;
		inet_pton(six ? AF_INET6 : AF_INET, addresses[i], bytes);
		ask_socks(&a, 1, six ? 4 : 1, bytes, six ? 16 : 4, 80);
		if (a.status != 2)
			broken("%s as an address: reply %d %s", addresses[i], a.status, a.text);
		answer_close(&a);
		len = strlen(addresses[i]);
		ask_socks(&a, 1, 3, addresses[i], len, 443);
		if (a.status != 2)
			broken("%s as a name: reply %d %s", addresses[i], a.status, a.text);
		answer_close(&a);
	}
	holds("%zu addresses, as such and as names: reply 2, not allowed", COUNT(addresses));
}

void
check_socks_commands(void)
{
	struct answer a;

	for (int command = 2; command <= 4; command++) {
		ask_socks(&a, command, 1, "\1\1\1\1", 4, 80);
		if (a.status != 7)
			broken("command %d: reply %d %s", command, a.status, a.text);
		answer_close(&a);
	}
	holds("BIND, UDP ASSOCIATE, command 4: reply 7, not supported");
}
