/* Strict parser of a request head (head.h): one pass over bytes that somebody else chose. */
#include <string.h>
#include <strings.h>

#include "apid/head.h"

static const char *const methods[] = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"};
static const char *const field_names[FIELDS] = {"host", "authorization", "x-api-key",
    "content-type", "origin", "sec-fetch-site", "x-request-id", "idempotency-key", "range",
    "if-range", "if-none-match"};

struct counts {
	unsigned fields, length, coding;
	int keep_alive;
};

int
slice_is(struct slice s, const char *text)
{
	return s.p != NULL && strlen(text) == s.n && strncasecmp(s.p, text, s.n) == 0;
}

static int
is_token(char ch)
{
	return ch > 32 && ch < 127 && strchr("\"(),/:;<=>?@[\\]{}", ch) == NULL;
}

static struct slice
trim(const char *p, const char *end)
{
	while (p < end && (*p == ' ' || *p == '\t'))
		p++;
	while (end > p && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	return (struct slice){p, (size_t)(end - p)};
}

int
head_has_token(struct slice list, const char *token)
{
	const char *p = list.p, *end, *comma;

	if (p == NULL)
		return 0;
	for (end = p + list.n; p < end; p = comma + 1) {
		if ((comma = memchr(p, ',', (size_t)(end - p))) == NULL)
			comma = end;
		if (slice_is(trim(p, comma), token))
			return 1;
	}
	return 0;
}

/* No control byte but TAB, and CR and LF only as a pair. */
static const char *
check_bytes(const char *p, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		unsigned char u = (unsigned char)p[i];

		if (u == '\r') {
			if (i + 1 >= n || p[i + 1] != '\n')
				return "a carriage return without a line feed";
		} else if (u == '\n') {
			if (i == 0 || p[i - 1] != '\r')
				return "a line feed without a carriage return";
		} else if ((u < 32 && u != '\t') || u == 127) {
			return "a control byte in the request head";
		}
	}
	return NULL;
}

static int
parse_method(const char *p, const char *end, struct head *h, const char **why)
{
	size_t n = (size_t)(end - p), i;

	if (n == 0 || n > 16) {
		*why = "malformed request line";
		return 400;
	}
	for (i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		if (strlen(methods[i]) == n && memcmp(methods[i], p, n) == 0) {
			h->method = (uint8_t)i;
			return 0;
		}
	}
	*why = "this method is not implemented";
	return 501;
}

/* METHOD SP target SP HTTP/1.x; the line ends at eol. */
static int
parse_request_line(const char *p, const char *eol, struct head *h, const char **why)
{
	const char *q = p;
	int status;

	while (q < eol && is_token(*q))
		q++;
	if (q == eol || *q != ' ') {
		*why = "malformed request line";
		return 400;
	}
	if ((status = parse_method(p, q, h, why)) != 0)
		return status;
	for (p = ++q; q<eol && * q> 32 && *q < 127 && *q != '#'; q++)
		;
	if (q == eol || *q != ' ' || p[0] != '/' || p[1] == '/') {
		*why = "the request target must be a path that begins with one slash";
		return 400;
	}
	h->target = (struct slice){p, (size_t)(q - p)};
	q++;
	if (eol - q != 8 || memcmp(q, "HTTP/1.", 7) != 0 || (q[7] != '0' && q[7] != '1')) {
		*why = "only HTTP/1.0 and HTTP/1.1 are spoken here";
		return 505;
	}
	h->minor = (uint8_t)(q[7] - '0');
	if (h->target.n > TARGET_MAX) {
		*why = "the request target is longer than 8 KiB";
		return 414;
	}
	return 0;
}

static int
parse_length(struct slice v, struct head *h, const char **why)
{
	size_t i;

	*why = "malformed Content-Length";
	if (v.n == 0 || v.n > 15)
		return 400;
	for (i = 0; i < v.n; i++) {
		if (v.p[i] < '0' || v.p[i] > '9')
			return 400;
		h->length = h->length * 10 + (uint64_t)(v.p[i] - '0');
	}
	h->has_length = 1;
	return 0;
}

/* Fields that say how the message is framed. Returns -1 for any other. */
static int
parse_framing(struct slice name, struct slice v, struct head *h, struct counts *c, const char **why)
{
	if (slice_is(name, "content-length")) {
		if (c->length++ > 0) {
			*why = "Content-Length was sent twice";
			return 400;
		}
		return parse_length(v, h, why);
	}
	if (slice_is(name, "transfer-encoding")) {
		if (c->coding++ > 0 || !slice_is(v, "chunked") || h->minor == 0) {
			*why = "the only Transfer-Encoding known here is chunked, with HTTP/1.1";
			return 501;
		}
		h->chunked = 1;
		return 0;
	}
	if (slice_is(name, "expect")) {
		if (!slice_is(v, "100-continue")) {
			*why = "the only expectation known here is 100-continue";
			return 417;
		}
		h->expect = h->minor == 1;
		return 0;
	}
	if (slice_is(name, "connection")) {
		if (head_has_token(v, "close"))
			h->close = 1;
		if (head_has_token(v, "keep-alive"))
			c->keep_alive = 1;
		return 0;
	}
	return -1;
}

static int
parse_field(const char *p, const char *eol, struct head *h, struct counts *c, const char **why)
{
	const char *q = p;
	struct slice name, value;
	int i, status;

	while (q < eol && is_token(*q))
		q++;
	if (q == p || q == eol || *q != ':') {
		*why = "malformed header field";
		return 400;
	}
	if (++c->fields > HEAD_FIELDS_MAX) {
		*why = "more than 64 header fields";
		return 431;
	}
	name = (struct slice){p, (size_t)(q - p)};
	value = trim(q + 1, eol);
	if ((status = parse_framing(name, value, h, c, why)) >= 0)
		return status;
	for (i = 0; i < FIELDS; i++) {
		if (!slice_is(name, field_names[i]))
			continue;
		/* A list may go on in another line; what it begins with will do. */
		if (h->field[i].p != NULL && i == FIELD_IF_NONE_MATCH)
			return 0;
		if (h->field[i].p != NULL) {
			*why = "a header field that may come once was sent twice";
			return 400;
		}
		h->field[i] = value;
	}
	return 0;
}

/* HEAD with a body is what proxies and servers disagree about most: never. */
static int
is_stray_of_route(const struct head *h)
{
	static const char prefix[] = STRAY_PREFIX;

	return (h->method == METHOD_GET || h->method == METHOD_DELETE) &&
	       h->target.n >= sizeof(prefix) &&
	       memcmp(h->target.p, prefix, sizeof(prefix) - 1) == 0;
}

static int
check_whole(struct head *h, const struct counts *c, const char **why)
{
	int may_have_body =
	    h->method == METHOD_POST || h->method == METHOD_PUT || h->method == METHOD_PATCH;

	*why = NULL;
	if (h->minor == 0 && !c->keep_alive)
		h->close = 1;
	h->stray = (h->chunked || h->length > 0) && !may_have_body;
	if (h->stray)
		h->close = 1;
	if (h->minor == 1 && h->field[FIELD_HOST].p == NULL)
		*why = "a Host header is required";
	else if (c->length > 0 && c->coding > 0)
		*why = "both Content-Length and Transfer-Encoding";
	else if (h->stray && !is_stray_of_route(h))
		*why = STRAY_TEXT;
	return *why == NULL ? 0 : 400;
}

int
head_parse(const char *p, size_t n, struct head *h, const char **why)
{
	const char *end = p + n, *eol;
	struct counts c = {0};
	int status;

	memset(h, 0, sizeof(*h));
	if (n < 4 || memcmp(end - 4, "\r\n\r\n", 4) != 0) {
		*why = "malformed request head";
		return 400;
	}
	if ((*why = check_bytes(p, n)) != NULL)
		return 400;
	eol = memmem(p, n, "\r\n", 2);
	if ((status = parse_request_line(p, eol, h, why)) != 0)
		return status;
	for (p = eol + 2; p < end - 2; p = eol + 2) {
		eol = memmem(p, (size_t)(end - p), "\r\n", 2);
		if ((status = parse_field(p, eol, h, &c, why)) != 0)
			return status;
	}
	return check_whole(h, &c, why);
}
