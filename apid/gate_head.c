/* Heads of requests: checked whole, then evhttp is shown a constant line in their place (gate.h).
 */
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apid/apid.h"
#include "apid/gate_listen.h"
#include "apid/metrics.h"
#include "common/log.h"

/* A head that cannot be served: the answer is ours alone, evhttp never sees it. */
static void
refuse_head(struct conn *c, int status, const char *why)
{
	char body[256], head[512];
	const char *id = req_new_id();
	int n;

	gate_log_refusal(c->peer.text, id, status, why);
	metrics_refused(status);
	n = snprintf(body, sizeof(body), "{\"error\":{\"code\":\"%s\",\"message\":\"%s\"}}",
	    req_status_code(status), why);
	n = snprintf(head, sizeof(head),
	    "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nCache-Control: no-store\r\n"
	    "Content-Security-Policy: " NO_CONTENT_POLICY "\r\n"
	    "X-Content-Type-Options: nosniff\r\nX-Request-Id: %s\r\nConnection: close\r\n"
	    "Content-Length: %d\r\n\r\n",
	    status, req_status_reason(status), id, n);
	c->state = GATE_CLOSING;
	evbuffer_drain(c->raw, evbuffer_get_length(c->raw));
	gate_write_raw(c, head, (size_t)n);
	evbuffer_add(bufferevent_get_output(c->bev), body, strlen(body));
	gate_kick(c);
}

/* All that evhttp learns of a request: which kind of answer to write. */
static const char *
canonical_head(const struct head *h)
{
	if (h->minor == 1)
		return h->method == METHOD_HEAD ? "HEAD / HTTP/1.1\r\n\r\n"
						: "GET / HTTP/1.1\r\n\r\n";
	if (h->close)
		return h->method == METHOD_HEAD ? "HEAD / HTTP/1.0\r\n\r\n"
						: "GET / HTTP/1.0\r\n\r\n";
	return h->method == METHOD_HEAD ? "HEAD / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
					: "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
}

/* Where the head ends, 0: not yet, or the status of a refusal in *status. */
static size_t
find_head(struct conn *c, int *status)
{
	struct evbuffer_ptr at = evbuffer_search(c->raw, "\r\n\r\n", 4, NULL);
	size_t n = evbuffer_get_length(c->raw);

	*status = 0;
	if (at.pos >= 0 && (size_t)at.pos + 4 <= HEAD_MAX)
		return (size_t)at.pos + 4;
	if (n < HEAD_MAX)
		return 0;
	at = evbuffer_search(c->raw, "\r\n", 2, NULL);
	*status = at.pos < 0 || at.pos > HEAD_MAX ? 414 : 431;
	return 0;
}

/* Whether what begins is not HTTP, but such as a TLS handshake: then nobody need wait for its end.
 */
static int
is_no_text(struct conn *c)
{
	unsigned char first;

	return evbuffer_copyout(c->raw, &first, 1) == 1 &&
	       (first > 126 || (first < 32 && first != '\r' && first != '\n'));
}

/* Moves at most one request on: its head is parsed, and evhttp's input gets a line that starts an
 * answer. */
void
gate_run_head(struct conn *c)
{
	struct evbuffer *line;
	const char *why, *text;
	size_t n;
	int status;

	if (c->proxied && c->ssl == NULL && (status = gate_proxy_header(c)) != 1) {
		if (status == -1)
			refuse_head(c, 400, "malformed header of the PROXY protocol, version 2");
		return;
	}
	if ((n = find_head(c, &status)) == 0) {
		if (status == 414)
			refuse_head(c, 414, "the request target is longer than 8 KiB");
		else if (status != 0)
			refuse_head(c, 431, "the request head is larger than 16 KiB");
		else if (is_no_text(c))
			refuse_head(c, 400,
			    c->ssl != NULL ? "this is no HTTP"
					   : "this is no HTTP; TLS is not spoken at this port");
		return;
	}
	free(c->text);
	if ((c->text = malloc(n + 1)) == NULL || (line = evbuffer_new()) == NULL)
		fatal("malloc");
	evbuffer_remove(c->raw, c->text, n);
	c->text[n] = '\0';
	if ((status = head_parse(c->text, n, &c->r.head, &why)) != 0) {
		evbuffer_free(line);
		refuse_head(c, status, why);
		return;
	}
	c->state = c->r.head.chunked || c->r.head.length > 0 ? GATE_BODY : GATE_WAIT;
	c->left = c->r.head.length;
	c->got = 0;
	c->accepted = c->paused = 0;
	memset(&c->chunk, 0, sizeof(c->chunk));
	text = canonical_head(&c->r.head);
	evbuffer_add(line, text, strlen(text));
	c->busy = 1;
	evbuffer_prepend_buffer(bufferevent_get_input(c->bev), line);
	c->busy = 0;
	evbuffer_free(line);
}
