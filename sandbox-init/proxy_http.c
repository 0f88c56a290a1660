/*
 * Reads one request head. What is not understood is refused; what is handed on is written anew line
 * by line, so that the host gets one well-formed request without what concerned only us.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "sandbox-init/proxy_http.h"

struct text {
	const char *p;
	size_t n;
};

struct out {
	uint8_t *p;
	size_t n;
};

size_t
http_head_end(const uint8_t *p, size_t n)
{
	const uint8_t *nl = p;

	while (n > 0 && (nl = memchr(nl, '\n', n - (size_t)(nl - p))) != NULL) {
		nl++;
		if ((size_t)(nl - p) < n && *nl == '\n')
			return (size_t)(nl - p) + 1;
		if ((size_t)(nl - p) + 1 < n && nl[0] == '\r' && nl[1] == '\n')
			return (size_t)(nl - p) + 2;
	}
	return 0;
}

/* The next line without its end; the one that is empty is the last. */
static struct text
next_line(struct text *rest)
{
	const char *nl = memchr(rest->p, '\n', rest->n);
	struct text line = {rest->p, nl == NULL ? rest->n : (size_t)(nl - rest->p)};

	rest->n -= line.n + (nl != NULL);
	rest->p += line.n + (nl != NULL);
	if (line.n > 0 && line.p[line.n - 1] == '\r')
		line.n--;
	return line;
}

static int
is(struct text t, const char *word)
{
	return t.n == strlen(word) && strncasecmp(t.p, word, t.n) == 0;
}

static int
is_token(struct text t)
{
	size_t i;

	for (i = 0; i < t.n; i++)
		if (t.p[i] <= 0x20 || t.p[i] >= 0x7f || strchr("()<>@,;:\\\"/[]?={}", t.p[i]))
			return 0;
	return t.n > 0;
}

/* No control characters and, in a request line, no blanks: bytes beyond ASCII are left to whoever
 * decides. */
static int
is_clean(struct text t, int blanks)
{
	size_t i;

	for (i = 0; i < t.n; i++)
		if (((unsigned char)t.p[i] < 0x20 && !(blanks && t.p[i] == '\t')) ||
		    t.p[i] == 0x7f || (t.p[i] == ' ' && !blanks))
			return 0;
	return 1;
}

static struct text
cut(struct text *rest, char at)
{
	const char *p = memchr(rest->p, at, rest->n);
	struct text t = {rest->p, p == NULL ? rest->n : (size_t)(p - rest->p)};

	rest->n -= t.n + (p != NULL);
	rest->p += t.n + (p != NULL);
	return t;
}

static int
parse_port(struct text t, uint16_t *port)
{
	unsigned value = 0;
	size_t i;

	if (t.n < 1 || t.n > 5)
		return -1;
	for (i = 0; i < t.n; i++) {
		if (t.p[i] < '0' || t.p[i] > '9')
			return -1;
		value = value * 10 + (unsigned)(t.p[i] - '0');
	}
	*port = (uint16_t)value;
	return value >= 1 && value <= 65535 ? 0 : -1;
}

/* "host", "host:port", "[v6]:port"; port 0: one must be named. */
static int
parse_authority(struct text t, uint16_t port, struct ask *a)
{
	struct text name;

	if (t.n > 0 && t.p[0] == '[') {
		t.p++, t.n--;
		if (memchr(t.p, ']', t.n) == NULL)
			return -1;
		name = cut(&t, ']');
		if (t.n > 0 && t.p[0] != ':')
			return -1;
		if (t.n > 0)
			t.p++, t.n--;
		else
			t.p = NULL;
	} else {
		const char *colon = memchr(t.p, ':', t.n);

		name = cut(&t, ':');
		if (colon == NULL)
			t.p = NULL;
	}
	a->port = port;
	if (name.n < 1 || name.n > DIAL_NAME_MAX || memchr(name.p, '@', name.n) != NULL ||
	    (t.p == NULL ? port == 0 : parse_port(t, &a->port) < 0))
		return -1;
	memcpy(a->name, name.p, name.n);
	a->name_len = (uint16_t)name.n;
	return 0;
}

static void
put(struct out *o, const char *p, size_t n)
{
	memcpy(o->p + o->n, p, n);
	o->n += n;
}

static void
put_text(struct out *o, const char *text)
{
	put(o, text, strlen(text));
}

/* The request line: what is asked for, and the one for the host. */
static const char *
request_line(struct text line, struct ask *a, struct out *o, struct text *authority)
{
	struct text method = cut(&line, ' '), target = cut(&line, ' ');
	size_t n;

	if (!is_token(method) || target.n == 0 || !is_clean(target, 0) ||
	    (!is(line, "HTTP/1.1") && !is(line, "HTTP/1.0")))
		return "this is no HTTP/1 request";
	if (method.n == 7 && memcmp(method.p, "CONNECT", 7) == 0) {
		a->how = DIAL_CONNECT;
		return parse_authority(target, 0, a) < 0 ? "CONNECT takes host:port" : NULL;
	}
	if (target.n < 7 || strncasecmp(target.p, "http://", 7) != 0)
		return "this is a proxy: the URL must begin with http://";
	target.p += 7, target.n -= 7;
	for (n = 0; n < target.n && strchr("/?#", target.p[n]) == NULL; n++)
		;
	*authority = (struct text){target.p, n};
	target.p += n, target.n -= n;
	a->how = DIAL_HTTP;
	if (parse_authority(*authority, 80, a) < 0 || memchr(target.p, '#', target.n) != NULL)
		return "this is no URL of a host";
	put(o, method.p, method.n);
	put_text(o, target.n > 0 && target.p[0] == '/' ? " " : " /");
	put(o, target.p, target.n);
	put_text(o, " ");
	put(o, line.p, line.n);
	put_text(o, "\r\n");
	return NULL;
}

/* Whether a Connection line of the head names this one. */
static int
is_named(struct text lines, struct text name)
{
	struct text line, field, option;

	while ((line = next_line(&lines)).n > 0) {
		field = cut(&line, ':');
		if (!is(field, "Connection"))
			continue;
		while (line.n > 0) {
			option = cut(&line, ',');
			while (option.n > 0 && (*option.p == ' ' || *option.p == '\t'))
				option.p++, option.n--;
			while (option.n > 0 &&
			       (option.p[option.n - 1] == ' ' || option.p[option.n - 1] == '\t'))
				option.n--;
			if (option.n == name.n && strncasecmp(option.p, name.p, name.n) == 0)
				return 1;
		}
	}
	return 0;
}

/* What concerns only this connection. The body goes on as it comes, so what says how long it is
 * stays. */
static int
is_ours(struct text lines, struct text name)
{
	if (is(name, "Host") || is(name, "Content-Length") || is(name, "Transfer-Encoding"))
		return 0;
	return is(name, "Connection") || is(name, "Keep-Alive") || is(name, "TE") ||
	       is(name, "Upgrade") || (name.n >= 6 && strncasecmp(name.p, "Proxy-", 6) == 0) ||
	       is_named(lines, name);
}

const char *
http_request(const uint8_t *p, size_t n, struct ask *a, uint8_t *out, size_t *out_len)
{
	struct text rest = {(const char *)p, n}, lines, line, value, name, authority = {NULL, 0};
	struct out o = {out, 0};
	const char *why = request_line(next_line(&rest), a, &o, &authority);
	int hosts = 0;

	*out_len = 0;
	if (why != NULL)
		return why;
	lines = rest;
	while ((line = next_line(&rest)).n > 0) {
		value = line;
		name = cut(&value, ':');
		if (name.n == line.n || !is_token(name) || !is_clean(value, 1))
			return "a malformed header line";
		hosts += is(name, "Host");
		if (a->how != DIAL_HTTP || is_ours(lines, name))
			continue;
		put(&o, line.p, line.n);
		put_text(&o, "\r\n");
	}
	if (hosts > 1)
		return "more than one Host header";
	if (a->how != DIAL_HTTP)
		return NULL;
	if (hosts == 0) {
		put_text(&o, "Host: ");
		put(&o, authority.p, authority.n);
		put_text(&o, "\r\n");
	}
	put_text(&o, "Connection: close\r\n\r\n");
	*out_len = o.n;
	return NULL;
}

size_t
http_answer(
    char out[HTTP_ANSWER_MAX], int status, const char *before, const char *text, size_t text_len)
{
	const char *phrase = status == 400   ? "Bad Request"
			     : status == 403 ? "Forbidden"
			     : status == 408 ? "Request Timeout"
			     : status == 431 ? "Request Header Fields Too Large"
					     : "Bad Gateway";
	size_t body;
	int n;

	if (text_len > DIAL_TEXT_MAX)
		text_len = DIAL_TEXT_MAX;
	body = strlen(before) + text_len + 1;
	n = snprintf(out, HTTP_ANSWER_MAX,
	    "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %zu\r\n"
	    "Connection: close\r\n\r\n%s%.*s\n",
	    status, phrase, body, before, (int)text_len, text);
	return n < HTTP_ANSWER_MAX ? (size_t)n : HTTP_ANSWER_MAX - 1;
}
