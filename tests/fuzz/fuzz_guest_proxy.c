/*
 * What a client inside may say to the proxies, and what may stand in a hosts file. The first byte
 * chooses. What is handed on to a host must be one well-formed head without what concerned the
 * proxy.
 */
// link: sandbox-init/proxy_http.o sandbox-init/proxy_socks.o sandbox-init/hosts.o
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sandbox-init/hosts.h"
#include "sandbox-init/proxy_http.h"
#include "sandbox-init/proxy_socks.h"

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

#define CHECK(x)                 \
	do {                     \
		if (!(x))        \
			abort(); \
	} while (0)

/* Lines of the head, the request line included, that begin with this word. */
static int
count(const char *head, size_t n, const char *word)
{
	const char *p = head, *end = head + n, *nl;
	int found = 0;

	while (p < end && (nl = memchr(p, '\n', (size_t)(end - p))) != NULL) {
		CHECK(nl > p && nl[-1] == '\r');
		found +=
		    (size_t)(nl - p) >= strlen(word) && strncasecmp(p, word, strlen(word)) == 0;
		p = nl + 1;
	}
	CHECK(p == end);
	return found;
}

static void
check_ask(const struct ask *a)
{
	CHECK(a->port != 0 && a->name_len >= 1 && a->name_len <= DIAL_NAME_MAX);
}

static void
fuzz_http(const uint8_t *p, size_t n)
{
	size_t end = http_head_end(p, n), len;
	struct ask a;
	uint8_t *out;

	CHECK(end <= n);
	if (end == 0)
		return;
	out = malloc(HTTP_HEAD_ROOM(end));
	if (http_request(p, end, &a, out, &len) == NULL) {
		check_ask(&a);
		CHECK(a.how == DIAL_CONNECT ? len == 0 : len > 0 && len <= HTTP_HEAD_ROOM(end));
		if (len > 0) {
			CHECK(http_head_end(out, len) == len);
			CHECK(count((char *)out, len, "Host:") == 1);
			CHECK(count((char *)out, len, "Connection:") == 1);
			CHECK(count((char *)out, len, "Proxy-") == 0);
			CHECK(memchr(out, '\0', len) == NULL);
		}
	}
	free(out);
}

static void
fuzz_socks(const uint8_t *p, size_t n)
{
	enum socks_reply reply = SOCKS_GENERAL;
	struct ask a;
	ssize_t used;
	int fits = -1;

	used = socks_greeting(p, n, &fits);
	CHECK(used <= SOCKS_GREETING_MAX && used <= (ssize_t)n);
	if (used <= 0)
		return;
	CHECK(fits == 0 || fits == 1);
	p += used, n -= (size_t)used;
	used = socks_request(p, n, &a, &reply);
	CHECK(used <= SOCKS_REQUEST_MAX && used <= (ssize_t)n);
	if (used > 0 && reply == SOCKS_OK)
		check_ask(&a);
}

static void
fuzz_hosts(const char *p, size_t n)
{
	struct hosts_name h;
	size_t at = 0, before = 0;

	while (hosts_next(p, n, &at, &h)) {
		CHECK(at > before && at <= n);
		CHECK(h.len > 0 && h.name >= p + before && h.name + h.len <= p + at);
		CHECK(h.address[0] == 127 && h.address[1] == 64);
		CHECK(memchr(h.name, '\n', h.len) == NULL && memchr(h.name, '#', h.len) == NULL);
		before = at;
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	if (n == 0)
		return 0;
	switch (p[0] % 3) {
	case 0:
		fuzz_http(p + 1, n - 1);
		break;
	case 1:
		fuzz_socks(p + 1, n - 1);
		break;
	default:
		fuzz_hosts((const char *)p + 1, n - 1);
		break;
	}
	return 0;
}
