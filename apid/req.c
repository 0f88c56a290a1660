/* Answering a request (req.h): headers that every answer has, the error shape, bodies, streams. */
#include <event2/buffer.h>
#include <event2/http.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apid/apid.h"
#include "apid/auth.h"
#include "apid/cors.h"
#include "apid/gate.h"
#include "apid/gate_listen.h"
#include "apid/hold.h"
#include "apid/json_out.h"
#include "apid/managerd.h"
#include "apid/metrics.h"
#include "apid/path.h"
#include "apid/route.h"
#include "apid/statuses.h"
#include "apid/tls.h"
#include "common/ids.h"
#include "common/log.h"

static const struct status {
	int status;
	const char *reason;
	const char *code;
} statuses[] = {
#define STATUS_X_ROW(status, reason, code, meaning, example) {status, reason, code},
    STATUS_TABLE(STATUS_X_ROW)};

static const struct status *
find_status(int status)
{
	size_t i;

	for (i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
		if (statuses[i].status == status)
			return &statuses[i];
	}
	return NULL;
}

const char *
req_status_code(int status)
{
	const struct status *s = find_status(status);

	return s != NULL ? s->code : "internal_error";
}

const char *
req_status_reason(int status)
{
	const struct status *s = find_status(status);

	return s != NULL ? s->reason : "Error";
}

const char *
req_new_id(void)
{
	static char text[ID_TEXT_MAX];

	return id_text(text, "req_", id_new());
}

void
req_ask(struct req *r, struct m_ask *ask)
{
	memset(ask, 0, sizeof(*ask));
	if (r->has_key)
		memcpy(ask->key, r->key, sizeof(ask->key));
	ask->has_key = r->has_key;
	ask->detail = r->detail;
	snprintf(ask->peer, sizeof(ask->peer), "%s", r->peer.text);
	memcpy(ask->addr, r->peer.addr, sizeof(ask->addr));
	ask->again = r->asked;
	r->asked = 1;
	if (r->conn->ssl != NULL)
		tls_subject(r->conn->ssl, ask->subject, sizeof(ask->subject));
	snprintf(ask->request_id, sizeof(ask->request_id), "%s", r->request_id);
}

void
req_header(struct req *r, const char *name, const char *value)
{
	if (evhttp_add_header(evhttp_request_get_output_headers(r->ev), name, value) != 0)
		log_warnx("header %s not sent", name);
}

/* The handler's part is over: whatever it held is given back. */
static void
cleanup(struct req *r)
{
	void (*run)(struct req *) = r->cleanup;

	r->cleanup = NULL;
	r->drained = r->going_down = NULL;
	if (run != NULL)
		run(r);
	if (r->call != 0)
		call_forget(r->call);
	r->call = 0;
	req_forget_body(r);
}

int
req_hold(struct req *r, size_t n)
{
	char subject[sizeof(((struct m_ask *)0)->subject)];
	uint8_t key[32];

	memcpy(key, r->key, sizeof(key));
	if (r->holder == NULL && !r->has_key && r->conn->ssl != NULL) {
		tls_subject(r->conn->ssl, subject, sizeof(subject));
		sha256(subject, sizeof(subject), key);
	}
	r->held += n;
	return hold_more(&r->holder, key, n) == -1 && r->held > HELD_FREE ? -1 : 0;
}

void
req_release(struct req *r, size_t n)
{
	r->held -= n;
	if (r->holder != NULL)
		hold_less(r->holder, n);
}

void
req_over(struct req *r)
{
	struct conn *conn = r->conn;

	metrics_request(r);
	cleanup(r);
	hold_end(&r->holder, r->held);
	memset(r, 0, sizeof(*r));
	r->conn = conn;
}

static void
common_headers(struct req *r)
{
	req_header(r, "X-Request-Id", r->request_id);
	if (!r->has_policy) {
		req_header(r, "Cache-Control", "no-store");
		req_header(r, "Content-Security-Policy", NO_CONTENT_POLICY);
	}
	req_header(r, "X-Content-Type-Options", "nosniff");
	if (r->head.close)
		req_header(r, "Connection", "close");
	cors_headers(r);
}

static int
has_detail(struct slice path)
{
#define DETAIL_X_PATH(text) {text, sizeof(text) - 1},
	static const struct slice paths[] = {DETAIL_PATHS(DETAIL_X_PATH)};
	size_t i;

	for (i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		if (path.n == paths[i].n && memcmp(path.p, paths[i].p, path.n) == 0)
			return 1;
	}
	return 0;
}

static void
error_body(struct req *r, struct evbuffer *body, int status, const char *text, size_t n)
{
	evbuffer_add_printf(
	    body, "{\"error\":{\"code\":\"%s\",\"message\":", req_status_code(status));
	out_string(body, text, n);
	evbuffer_add(body, "}", 1);
	if (has_detail(r->path)) {
		evbuffer_add_printf(body, ",\"detail\":");
		out_string(body, text, n);
	}
	evbuffer_add(body, "}", 1);
}

static void
log_answer(const struct req *r, int status)
{
	log_request(r->request_id);
	log_debug("%s: %.*s %d", r->peer.text, (int)r->path.n, r->path.p, status);
	log_request(NULL);
}

static void
send_whole(struct req *r, int status, struct evbuffer *body)
{
	struct conn *c = r->conn;
	char length[32];

	common_headers(r);
	if (status != 204 && status != 304) {
		if (evhttp_find_header(evhttp_request_get_output_headers(r->ev), "Content-Type") ==
		    NULL)
			req_header(r, "Content-Type", "application/json");
		snprintf(length, sizeof(length), "%zu", evbuffer_get_length(body));
		req_header(r, "Content-Length", length);
	}
	if (r->head.method == METHOD_HEAD)
		evbuffer_drain(body, evbuffer_get_length(body));
	log_answer(r, status);
	r->started = 1;
	r->status = status;
	r->leave_ends = 0;
	cleanup(r);
	evhttp_send_reply(r->ev, status, req_status_reason(status), body);
	gate_sent(c);
}

void
req_reply(struct req *r, int status, struct evbuffer *body)
{
	static const char malformed[] = "malformed chunked body";
	struct evbuffer *out = body != NULL ? body : buffer_new();
	int skipped;

	if (r->ev == NULL || r->started)
		fatalx("a request was answered twice");
	skipped = r->head.stray ? 0 : gate_body_skip(r->conn);
	if (skipped != 1)
		r->head.close = 1;
	if (skipped == -1 && status != 400) {
		status = 400;
		evbuffer_drain(out, evbuffer_get_length(out));
		error_body(r, out, 400, malformed, sizeof(malformed) - 1);
	}
	r->on_body = NULL;
	send_whole(r, status, out);
	evbuffer_free(out);
}

static void
send_error(struct req *r, int status, uint32_t retry_after, const char *text, size_t n)
{
	struct evbuffer *body = buffer_new();
	char seconds[16];

	if (find_status(status) == NULL || status < 400)
		status = 500;
	if (status == 401)
		req_header(r, "WWW-Authenticate", "Bearer");
	if (retry_after == 0 && (status == 429 || status == 503))
		retry_after = 1;
	if (retry_after > 0) {
		snprintf(seconds, sizeof(seconds), "%u", retry_after);
		req_header(r, "Retry-After", seconds);
	}
	error_body(r, body, status, text, n);
	req_reply(r, status, body);
}

static void
refuse_now(struct req *r)
{
	send_error(r, r->refusal.status, 0, r->refusal.text, strlen(r->refusal.text));
}

void
req_error_text(struct req *r, int status, uint32_t retry_after, const char *text, size_t n)
{
	if (r->started) {
		req_stream_abort(r);
		return;
	}
	if (r->route != NULL && r->route->access == ACCESS_KEY && !r->authed && status != 503) {
		/* A stranger learns nothing of what is wrong. */
		r->refusal.status = status;
		if (n >= sizeof(r->refusal.text))
			n = sizeof(r->refusal.text) - 1;
		memmove(r->refusal.text, text, n); /* it may be that very text */
		r->refusal.text[n] = '\0';
		req_authenticate(r, refuse_now);
		return;
	}
	send_error(r, status, retry_after, text, n);
}

void
req_error(struct req *r, int status, const char *fmt, ...)
{
	char text[TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	req_error_text(r, status, 0, text, strlen(text));
}

void
req_refuse(struct req *r, const struct refusal *why)
{
	req_error_text(r, why->status, 0, why->text, strlen(why->text));
}

void
req_pass_on(struct req *r, const struct answer *a)
{
	const struct m_reply *reply = a->payload;

	r->authed = 1;
	req_error_text(r, (int)reply->status, reply->retry_after, a->tail, a->tail_len);
}

void
req_overloaded(struct req *r)
{
	req_error_text(r, 503, 1, "the server is overloaded, try again", 35);
}

void
req_stream_start(struct req *r, int status, const char *type, int64_t length)
{
	char text[32];

	/* Without a length and without chunks its end is that of the connection; evhttp, which
	 * would keep that, would say a length of 0. */
	if (length < 0 && r->head.minor == 0) {
		r->head.close = 1;
		evhttp_remove_header(evhttp_request_get_input_headers(r->ev), "Connection");
	}
	common_headers(r);
	req_header(r, "Content-Type", type);
	if (length >= 0) {
		snprintf(text, sizeof(text), "%lld", (long long)length);
		req_header(r, "Content-Length", text);
	}
	log_answer(r, status);
	r->started = 1;
	r->status = status;
	evhttp_send_reply_start(r->ev, status, req_status_reason(status));
	gate_sent(r->conn);
}

void
req_stream_write(struct req *r, struct evbuffer *data)
{
	if (r->head.method == METHOD_HEAD) {
		evbuffer_drain(data, evbuffer_get_length(data));
		return;
	}
	evhttp_send_reply_chunk(r->ev, data);
	gate_sent(r->conn);
}

size_t
req_stream_unsent(const struct req *r)
{
	return gate_unsent(r->conn);
}

void
req_stream_end(struct req *r)
{
	struct conn *c = r->conn;

	r->leave_ends = 0;
	cleanup(r);
	if (c->state == GATE_BODY && (r->head.stray || gate_body_skip(c) != 1))
		r->head.close = 1;
	r->on_body = NULL;
	evhttp_send_reply_end(r->ev);
	gate_sent(c);
}

void
req_stream_abort(struct req *r)
{
	cleanup(r);
	r->on_body = NULL;
	gate_doom(r->conn);
}
