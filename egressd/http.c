/*
 * Reads the head of the first request as far as its host; see http.h. It is stricter than servers
 * are: what two of them could understand differently is refused.
 */
#include "egressd/http.h"

#include <string.h>
#include <strings.h>

#define SCHEME "http://"

static int
token_char(unsigned char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static size_t
token(const char *p, size_t n)
{
	size_t i = 0;

	while (i < n && token_char((unsigned char)p[i]))
		i++;
	return i;
}

/* A line up to its CR LF: its length, without them. -1: more is needed; -2: a byte that none has.
 */
static long
line_length(const char *p, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		unsigned char c = (unsigned char)p[i];
		if (c == '\r') {
			if (i + 1 == n)
				return -1;
			return p[i + 1] == '\n' ? (long)i : -2;
		}
		if ((c < 0x20 && c != '\t') || c == 0x7f)
			return -2;
	}
	return -1;
}

/* http://host[:port]/… */
static int
absolute(const char *p, size_t n, struct http_host *out)
{
	size_t skip = sizeof(SCHEME) - 1, end = skip;

	if (n < skip || strncasecmp(p, SCHEME, skip) != 0)
		return -1;
	while (end < n && strchr("/?#", p[end]) == NULL)
		end++;
	if (end == skip || memchr(p + skip, '@', end - skip) != NULL)
		return -1;
	out->target = p + skip;
	out->target_len = end - skip;
	return 0;
}

/* METHOD SP TARGET SP HTTP/1.x */
static int
request_line(const char *p, size_t n, struct http_host *out)
{
	size_t method = token(p, n), i;
	const char *target = p + method + 1;

	if (method == 0 || method == n || p[method] != ' ' ||
	    (method == 7 && memcmp(p, "CONNECT", 7) == 0))
		return -1;
	for (i = method + 1; i < n && p[i] != ' '; i++)
		if ((unsigned char)p[i] <= 0x20 || (unsigned char)p[i] == 0x7f)
			return -1;
	if (n - i != sizeof(" HTTP/1.x") - 1 || memcmp(p + i, " HTTP/1.", 8) != 0 ||
	    (p[n - 1] != '0' && p[n - 1] != '1'))
		return -1;
	n = i - (method + 1);
	if (n > 0 && (target[0] == '/' || (n == 1 && target[0] == '*')))
		return 0;
	return absolute(target, n, out);
}

/* NAME: VALUE. Only one Host, and no line that goes on in the next. */
static int
header_line(const char *p, size_t n, struct http_host *out)
{
	size_t name = token(p, n), from, to = n;

	if (name == 0 || name == n || p[name] != ':')
		return -1;
	if (name != 4 || strncasecmp(p, "Host", 4) != 0)
		return 0;
	for (from = name + 1; from < n && (p[from] == ' ' || p[from] == '\t'); from++)
		;
	while (to > from && (p[to - 1] == ' ' || p[to - 1] == '\t'))
		to--;
	if (out->host != NULL || from == to)
		return -1;
	out->host = p + from;
	out->len = to - from;
	return 0;
}

enum http_result
http_head(const uint8_t *bytes, size_t n, struct http_host *out)
{
	const char *p = (const char *)bytes, *end = p + n;
	int first = 1;
	long len;

	memset(out, 0, sizeof(*out));
	/* What cannot become a request is not waited for. */
	if (n > 0 && !token_char(bytes[0]))
		return HTTP_BAD;
	while ((len = line_length(p, (size_t)(end - p))) >= 0) {
		if (first ? request_line(p, (size_t)len, out) == -1
			  : len > 0 && header_line(p, (size_t)len, out) == -1)
			return HTTP_BAD;
		if (len == 0)
			return out->host != NULL ? HTTP_HOST : HTTP_BAD;
		first = 0;
		p += len + 2;
	}
	return len == -2 ? HTTP_BAD : HTTP_MORE;
}
