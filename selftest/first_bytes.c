/* What is said on a connection that was allowed: whether the names in it must be the one that was
 * dialled. All of this needs a host that is listed and answers. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>

#include "selftest/probe.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define OTHER "other.selftest.invalid"
#define ALERT 21
#define HANDSHAKE 22

static int
have_target(void)
{
	if (probe.target == NULL)
		skipped("give --target: a name that answers on ports 80 and 443");
	return probe.target != NULL;
}

static size_t
put(unsigned char *p, const void *data, size_t n)
{
	memcpy(p, data, n);
	return n;
}

static void
put_length(unsigned char *p, size_t n)
{
	p[0] = (unsigned char)(n >> 8);
	p[1] = (unsigned char)n;
}

/* A TLS hello for name (NULL: none) that servers of 1.2 and 1.3 answer with a handshake message.
 * Returns its length. */
static size_t
hello(unsigned char *out, const char *name)
{
	static const unsigned char start[] = {HANDSHAKE, 3, 1, 0, 0, 1, 0, 0, 0, 3, 3};
	static const unsigned char middle[] = {0, 0, 16, 0x13, 1, 0x13, 2, 0xc0, 0x2f, 0xc0, 0x30,
	    0xc0, 0x2b, 0, 0x9c, 0, 0x2f, 0, 0x35, 1, 0, 0, 0};
	static const unsigned char rest[] = {0, 43, 0, 5, 4, 3, 4, 3, 3, /* versions */
	    0, 10, 0, 6, 0, 4, 0, 29, 0, 23,                             /* groups */
	    0, 11, 0, 2, 1, 0,                                           /* points */
	    0, 13, 0, 14, 0, 12, 4, 3, 8, 4, 4, 1, 5, 3, 8, 5, 2, 1,     /* signatures */
	    0, 51, 0, 2, 0, 0};                                          /* no key yet */
	size_t n = put(out, start, sizeof(start)), extensions, len;

	memset(out + n, 0x5a, 32);
	n += 32;
	n += put(out + n, middle, sizeof(middle));
	extensions = n;
	if (name != NULL) {
		len = strlen(name);
		memset(out + n, 0, 9);
		put_length(out + n + 2, len + 5);
		put_length(out + n + 4, len + 3);
		put_length(out + n + 7, len);
		n += 9 + put(out + n + 9, name, len);
	}
	n += put(out + n, rest, sizeof(rest));
	put_length(out + extensions - 2, n - extensions);
	put_length(out + 3, n - 5);
	put_length(out + 7, n - 9);
	return n;
}

/* Sends it in pieces of so many bytes; the first bytes of what comes back. */
static ssize_t
say(int fd, const void *data, size_t len, size_t piece, unsigned char back[8])
{
	const char *p = data;
	size_t n;

	for (; len > 0; p += n, len -= n) {
		n = len < piece ? len : piece;
		if (send(fd, p, n, MSG_NOSIGNAL) != (ssize_t)n)
			return 0;
		if (piece < len)
			usleep(2000);
	}
	return recv(fd, back, 8, MSG_WAITALL);
}

/* An end without a word, or an alert that is egressd's. */
static void
must_not_pass(const char *form, int fd, const void *data, size_t len, size_t piece)
{
	unsigned char back[8];
	ssize_t n = say(fd, data, len, piece, back);

	if (n > 0 && !(n >= 7 && back[0] == ALERT && (back[6] == 112 || back[6] == 50)))
		broken("%s: the host answered (%zd bytes, type %u)", form, n, back[0]);
	else if (n == -1 && (errno == EAGAIN || errno == EWOULDBLOCK))
		broken("%s: it stays open", form);
}

static int
tunnel(unsigned port)
{
	struct answer a;

	ask_connect(&a, probe.target, strlen(probe.target), port);
	if (a.status != 200)
		broken("%s:%u cannot be reached: %d %.80s", probe.target, port, a.status, a.text);
	return a.fd;
}

void
check_proxy_reaches(void)
{
	unsigned char data[1024], back[8] = {0};
	struct answer a;
	char request[1024];
	ssize_t n;
	int fd;

	if (!have_target())
		return;
	if ((fd = tunnel(443)) != -1) {
		n = say(fd, data, hello(data, probe.target), sizeof(data), back);
		if (n < 1 || back[0] != HANDSHAKE)
			broken("port 443 does not speak TLS: %zd bytes, type %u", n, back[0]);
		close(fd);
	}
	n = snprintf(request, sizeof(request), "GET http://%s/ HTTP/1.1\r\nHost: %s\r\n\r\n",
	    probe.target, probe.target);
	ask_http(&a, NULL, request, (size_t)n);
	if (a.status < 200 || strncmp(a.text, "egress ", 7) == 0)
		broken("port 80: %d %.80s", a.status, a.text);
	holds("%s: a TLS handshake begins, HTTP answers %d", probe.target, a.status);
}

/* The end without a word, egressd's refusal, or that of the sandbox's proxy, which takes nothing
 * malformed. Takes fd. */
static void
must_be_other_host(const char *form, int fd, const char *request, size_t len)
{
	char text[1024] = "";
	size_t n = 0;
	ssize_t got = 1;

	if (fd == -1)
		return;
	send(fd, request, len, MSG_NOSIGNAL);
	/* What is no refusal is an answer, after which a connection may stay open. */
	while (n < sizeof(text) - 1 && (got = recv(fd, text + n, sizeof(text) - 1 - n, 0)) > 0) {
		n += (size_t)got;
		if (n >= 12 && strncmp(text + 8, " 4", 2) != 0)
			break;
	}
	if (got == -1 && (errno == EAGAIN || errno == EWOULDBLOCK))
		broken("%s: it stays open", form);
	else if (n > 0 && strstr(text, "\r\n\r\negress refused: ") == NULL &&
		 strstr(text, "Content-Type: text/plain; charset=utf-8\r\n") == NULL)
		broken("%s: the host answered: %.*s", form, (int)strcspn(text, "\r\n"), text);
	close(fd);
}

/* In each request %s is the target. */
static const struct {
	const char *form, *request;
	int tunnel;
} hosts[] = {
    {"URL and Host differ", "GET http://%s/ HTTP/1.1\r\nHost: " OTHER "\r\n\r\n", 0},
    {"two Hosts", "GET http://%s/ HTTP/1.1\r\nHost: %s\r\nHost: " OTHER "\r\n\r\n", 0},
    {"Host with a user", "GET http://%s/ HTTP/1.1\r\nHost: %s@" OTHER "\r\n\r\n", 0},
    {"Host with another port", "GET http://%s/ HTTP/1.1\r\nHost: %s:81\r\n\r\n", 0},
    {"CONNECT to port 80", "GET / HTTP/1.1\r\nHost: " OTHER "\r\nX: %s\r\n\r\n", 1},
    {"no Host", "GET / HTTP/1.1\r\nX: %s\r\n\r\n", 1},
    {"Host on two lines", "GET / HTTP/1.1\r\nHost: %s\r\n ." OTHER "\r\n\r\n", 1},
    {"URL differs from Host", "GET http://" OTHER "/ HTTP/1.1\r\nHost: %s\r\n\r\n", 1},
    {"blank before the colon", "GET / HTTP/1.1\r\nHost : " OTHER "\r\nHost: %s\r\n\r\n", 1},
    {"line ends without CR", "GET / HTTP/1.1\nHost: " OTHER "\nX: %s\n\n", 1},
};

void
check_proxy_host(void)
{
	char request[2048];
	int n, fd;

	if (!have_target())
		return;
	for (size_t i = 0; i < COUNT(hosts); i++) {
		n = snprintf(
		    request, sizeof(request), hosts[i].request, probe.target, probe.target);
		fd = hosts[i].tunnel ? tunnel(80) : reach_one("127.0.0.1:3128", 25000);
		must_be_other_host(hosts[i].form, fd, request, (size_t)n);
	}
	holds("%zu requests: the Host header is not the name that was dialled", COUNT(hosts));
}

static void
try_hello(const char *form, unsigned port, const char *name, size_t piece)
{
	unsigned char data[1024];
	int fd = tunnel(port);

	if (fd == -1)
		return;
	must_not_pass(form, fd, data, hello(data, name), piece);
	close(fd);
}

void
check_proxy_sni(void)
{
	static const unsigned char old[] = {0x80, 0x2e, 1, 3, 1, 0, 0x15, 0, 0, 0, 0x10};
	char longer[300];
	int fd;

	if (!have_target())
		return;
	snprintf(longer, sizeof(longer), "x.%s", probe.target);
	try_hello("another name", 443, OTHER, 1024);
	try_hello("no name", 443, NULL, 1024);
	try_hello("a name below it", 443, longer, 1024);
	try_hello("an address", 443, "127.0.0.1", 1024);
	try_hello("another name, byte by byte", 443, OTHER, 1);
	try_hello("another name on port 80", 80, OTHER, 1024);
	if ((fd = tunnel(443)) != -1) {
		must_not_pass("the hello of SSL 2", fd, old, sizeof(old), sizeof(old));
		close(fd);
	}
	holds("6 hellos and one of SSL 2: an alert, or the end");
}

void
check_proxy_redirect(void)
{
	char text[65536], request[1024], *at = text;
	int n, answers = 0, fd;
	size_t len = 0;
	ssize_t got;

	if (!have_target())
		return;
	n = snprintf(request, sizeof(request),
	    "GET http://%s/ HTTP/1.1\r\nHost: %s\r\n\r\n"
	    "GET http://169.254.169.254/latest/meta-data/ HTTP/1.1\r\nHost: "
	    "169.254.169.254\r\n\r\n",
	    probe.target, probe.target);
	if ((fd = reach_one("127.0.0.1:3128", 25000)) == -1) {
		broken("the proxy: %s", strerror(errno));
		return;
	}
	send(fd, request, (size_t)n, MSG_NOSIGNAL);
	while (
	    len < sizeof(text) - 1 && (got = recv(fd, text + len, sizeof(text) - 1 - len, 0)) > 0)
		len += (size_t)got;
	text[len] = '\0';
	close(fd);
	for (; (at = strstr(at, "HTTP/1.1 ")) != NULL; at += 9)
		answers += at == text || at[-1] == '\n';
	if (answers > 1)
		broken("%d answers on one connection", answers);
	holds("%d answer, and the connection is closed", answers);
}

/* The loopback address of a name in /etc/hosts. */
static int
address_of(const char *name, char out[32])
{
	char text[65536], *line, *rest = text, at[32], found[256];

	if (read_text("/etc/hosts", text, sizeof(text)) <= 0)
		return -1;
	while ((line = strsep(&rest, "\n")) != NULL)
		if (sscanf(line, "%31s %255s", at, found) == 2 && strcmp(found, name) == 0) {
			snprintf(out, 32, "%s", at);
			return 0;
		}
	return -1;
}

void
check_direct(void)
{
	unsigned char data[1024];
	char at[32], where[48], request[512];
	size_t len;
	int fd;

	if (address_of("listed.selftest.invalid", at) == -1) {
		skipped("the list's names are not in /etc/hosts");
		return;
	}
	snprintf(where, sizeof(where), "%s:22", at);
	if ((fd = reach_one(where, 5000)) != -1)
		broken("%s: connected", where);
	if ((fd = reach_one("127.64.255.254:80", 5000)) != -1)
		broken("127.64.255.254:80: connected");
	holds("%s: other ports are closed", at);
	if (probe.target == NULL || address_of(probe.target, at) == -1)
		return;
	snprintf(where, sizeof(where), "%s:443", at);
	len = hello(data, OTHER);
	if ((fd = reach_one(where, 20000)) == -1)
		broken("%s: %s", where, strerror(errno));
	else
		must_not_pass("another TLS name", fd, data, len, sizeof(data));
	snprintf(where, sizeof(where), "%s:80", at);
	len =
	    (size_t)snprintf(request, sizeof(request), "GET / HTTP/1.1\r\nHost: " OTHER "\r\n\r\n");
	if ((fd = reach_one(where, 20000)) == -1)
		broken("%s: %s", where, strerror(errno));
	else
		must_be_other_host("another Host", fd, request, len);
	holds("%s: other ports are closed, other names refused", at);
}
