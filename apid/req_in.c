/* The start of a request (req.h): its id, its key, its body. */
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <stdio.h>
#include <string.h>

#include "apid/apid.h"
#include "apid/auth.h"
#include "apid/browser.h"
#include "apid/gate.h"
#include "apid/gate_listen.h"
#include "apid/managerd.h"
#include "apid/path.h"
#include "apid/route.h"
#include "common/ids.h"
#include "common/log.h"

#define PARSE_AT_ONCE (16 * 1024) /* larger bodies have their turn */

/* A client's own id is kept if it can do no harm in a log. */
static void
choose_id(struct req *r)
{
	struct slice s = r->head.field[FIELD_REQUEST_ID];
	size_t i;

	for (i = 0; i < s.n; i++) {
		char ch = s.p[i];

		if (!((ch >= '0' && ch <= '9') || (ch >= 'A' && ch <= 'Z') ||
			(ch >= 'a' && ch <= 'z') || ch == '.' || ch == '_' || ch == '-'))
			break;
	}
	if (s.n > 0 && s.n <= REQUEST_ID_MAX && i == s.n)
		snprintf(r->request_id, sizeof(r->request_id), "%.*s", (int)s.n, s.p);
	else
		snprintf(r->request_id, sizeof(r->request_id), "%s", req_new_id());
}

int
req_has_body(const struct req *r)
{
	return r->head.chunked || r->head.length > 0;
}

void
req_begin(struct req *r)
{
	const struct browser_policy *policy =
	    r->conn->metrics ? &apid.metrics_browser : &apid.browser;
	const char *why;

	r->began_us = time_boot_us();
	r->authed = r->conn->metrics; /* nobody needs a key there */
	r->peer = r->conn->peer;
	peer_forwarded(r->conn->text, strlen(r->conn->text), &apid.trust, &r->peer);
	target_split(r->head.target, &r->path, &r->query);
	choose_id(r);
	if (gate_is_going_down()) {
		r->head.close = 1;
		req_error_text(r, 503, 1, "the server is going down", 24);
		return;
	}
	if ((why = browser_check(&r->head, policy)) != NULL) {
		req_error(r, 403, "%s", why);
		return;
	}
	r->has_key = (uint8_t)auth_key(&r->head, r->key);
	route_request(r);
}

static void
on_auth(void *arg, const struct answer *a)
{
	struct req *r = arg;
	const struct m_reply *reply = a->payload;
	void (*then)(struct req *) = r->then;

	r->call = 0;
	if (reply->status != 200 && reply->status != 204) {
		req_pass_on(r, a);
		return;
	}
	r->authed = 1;
	then(r);
}

void
req_authenticate(struct req *r, void (*then)(struct req *))
{
	struct m_auth auth = {0};

	if (r->authed) {
		then(r);
		return;
	}
	r->then = then;
	if (r->call != 0)
		call_forget(r->call);
	if ((r->call = call_new(CALL_REPLY, on_auth, r)) == 0) {
		req_overloaded(r);
		return;
	}
	req_ask(r, &auth.ask);
	auth.scope = r->route->scope;
	auth.changes = r->head.method != METHOD_GET && r->head.method != METHOD_HEAD;
	send_AUTH(apid.managerd, r->call, &auth, NULL, 0, -1);
}

static void
collect(struct req *r, struct evbuffer *src, size_t n)
{
	evbuffer_remove_buffer(src, r->body, n);
	if (req_hold(r, n) == -1)
		req_overloaded(r);
}

/* Whole bodies whose parsing would hold up everybody else for long. */
static TAILQ_HEAD(, req) waiting = TAILQ_HEAD_INITIALIZER(waiting);
static struct event *parser;

void
req_forget_body(struct req *r)
{
	if (r->waits)
		TAILQ_REMOVE(&waiting, r, turn);
	r->waits = 0;
	json_decref(r->json);
	r->json = NULL;
	if (r->body != NULL) {
		req_release(r, evbuffer_get_length(r->body));
		evbuffer_free(r->body);
	}
	r->body = NULL;
}

/* What the handler needs for longer it has taken: it may wait for hours. */
static void
parse_body(struct req *r)
{
	size_t n = evbuffer_get_length(r->body);
	const char *p = n > 0 ? (const char *)evbuffer_pullup(r->body, -1) : "";

	if (json_parse(p, n, &r->json, &r->refusal) == -1)
		req_refuse(r, &r->refusal);
	else
		r->then_json(r);
	req_forget_body(r);
}

/* The oldest one, but no key has two turns while another waits. */
static struct req *
next_turn(void)
{
	static uint8_t last[sizeof(((struct req *)0)->key)];
	struct req *r;

	TAILQ_FOREACH (r, &waiting, turn)
		if (memcmp(r->key, last, sizeof(last)) != 0)
			break;
	if (r == NULL)
		r = TAILQ_FIRST(&waiting);
	if (r != NULL)
		memcpy(last, r->key, sizeof(last));
	return r;
}

static void
parse_after_others(void)
{
	static const struct timeval at_once = {0, 0};

	if (!TAILQ_EMPTY(&waiting) && event_add(parser, &at_once) == -1)
		fatalx("event_add");
}

static void
on_turn(evutil_socket_t fd, short what, void *arg)
{
	struct req *r = next_turn();

	(void)fd, (void)what, (void)arg;
	if (r != NULL) {
		TAILQ_REMOVE(&waiting, r, turn);
		r->waits = 0;
		parse_body(r);
	}
	parse_after_others();
}

/* A large one can take a tenth of a second: one in each round of the loop. */
static void
body_is_whole(struct req *r)
{
	if (evbuffer_get_length(r->body) <= PARSE_AT_ONCE) {
		parse_body(r);
		return;
	}
	if (parser == NULL && (parser = evtimer_new(apid.base, on_turn, NULL)) == NULL)
		fatalx("evtimer_new");
	TAILQ_INSERT_TAIL(&waiting, r, turn);
	r->waits = 1;
	parse_after_others();
}

static int
is_json_type(struct slice type)
{
	const char *end = memchr(type.p, ';', type.n);

	if (end != NULL)
		type.n = (size_t)(end - type.p);
	while (type.n > 0 && (type.p[type.n - 1] == ' ' || type.p[type.n - 1] == '\t'))
		type.n--;
	return slice_is(type, "application/json");
}

/* The key is good (or there is no body to wait for). */
static void
start_json(struct req *r)
{
	struct slice type = r->head.field[FIELD_CONTENT_TYPE];

	if (type.p != NULL && type.n > 0 && !is_json_type(type)) {
		req_error(r, 415, "the Content-Type of a JSON body is application/json");
		return;
	}
	r->body = buffer_new();
	if (!req_has_body(r)) {
		parse_body(r);
		return;
	}
	r->on_body = collect;
	r->on_body_end = body_is_whole;
	req_body(r, JSON_BODY_MAX, "the JSON body is larger than 1 MiB");
}

void
req_json(struct req *r, int optional, void (*then)(struct req *))
{
	r->then_json = then;
	if (req_has_body(r))
		req_authenticate(r, start_json);
	else if (optional)
		then(r);
	else
		start_json(r);
}

void
req_body(struct req *r, uint64_t max, const char *too_large)
{
	if (!r->head.chunked && r->head.length > max)
		req_error(r, 413, "%s", too_large);
	else
		gate_body_accept(r->conn, max, too_large);
}

void
req_body_pause(struct req *r, int on)
{
	gate_body_pause(r->conn, on);
}

uint64_t
req_body_bytes(const struct req *r)
{
	return r->conn->got;
}

int
req_query_bool(struct req *r, const char *name, uint8_t *out)
{
	char value[TARGET_MAX + 1];
	struct slice text = {value, 0};

	*out = 0;
	switch (query_get(r->query, name, value, &text.n)) {
	case QUERY_NONE:
		return 0;
	case QUERY_GIVEN:
		if (slice_is(text, "true") || slice_is(text, "1")) {
			*out = 1;
			return 0;
		}
		if (slice_is(text, "false") || slice_is(text, "0"))
			return 0;
		break;
	default:
		break;
	}
	req_error(r, 422, "%s: must be true or false", name);
	return -1;
}
