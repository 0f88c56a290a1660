/* The table of routes and the way from a request to its handler (route.h). */
#include <event2/buffer.h>
#include <stdio.h>
#include <string.h>

#include "apid/apid.h"
#include "apid/cors.h"
#include "apid/gate.h"
#include "apid/path.h"
#include "apid/route.h"
#include "common/ids.h"

static const struct route routes[] = {
#define ROUTE_X_ROW(method, body, access, scope, pattern, handler) \
	{METHOD_##method, BODY_##body, ACCESS_##access, SCOPE_##scope, pattern, handler},
    ROUTE_TABLE(ROUTE_X_ROW)};

static const char *const method_names[] = {
    "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"};

size_t
route_index(const struct route *route)
{
	return route != NULL ? (size_t)(route - routes) : ROUTES;
}

const char *
route_pattern(size_t i)
{
	return i < ROUTES ? routes[i].pattern : "other";
}

enum method
route_method(size_t i)
{
	return routes[i].method;
}

/*
 * Compares segment by segment, as sent: our paths need no percent-encoding, and a second spelling
 * of a path is a way around somebody's filter. An id is one segment that is not empty.
 */
static int
matches(const char *pattern, struct slice path, struct slice *id)
{
	const char *p = path.p, *end = path.p + path.n;

	*id = (struct slice){NULL, 0};
	while (*pattern != '\0') {
		if (*pattern == '{') {
			id->p = p;
			while (p < end && *p != '/')
				p++;
			id->n = (size_t)(p - id->p);
			if (id->n == 0)
				return 0;
			pattern = strchr(pattern, '}') + 1;
			continue;
		}
		if (p == end || *p != *pattern)
			return 0;
		p++;
		pattern++;
	}
	return p == end;
}

static void
parse_id(struct req *r)
{
	int of_sandbox = strstr(r->route->pattern, "{sandbox_id}") != NULL;
	char text[ID_TEXT_MAX];

	r->id = 0;
	if (r->id_text.p == NULL || r->id_text.n >= sizeof(text))
		return;
	memcpy(text, r->id_text.p, r->id_text.n);
	text[r->id_text.n] = '\0';
	if (id_parse(text, of_sandbox ? "sb_" : "snap_", &r->id) == -1 ||
	    (of_sandbox && run_has(r->id)))
		r->id = 0;
}

/* Nobody wants this body: take it if it is small, so that the connection can go on. */
static void
drop(struct req *r, struct evbuffer *src, size_t n)
{
	(void)r;
	evbuffer_drain(src, n);
}

static void
answer_no_route(struct req *r)
{
	r->route = NULL;
	if (r->refusal.status == 204)
		req_reply(r, 204, NULL);
	else
		req_refuse(r, &r->refusal);
}

static void
no_route(struct req *r)
{
	struct conn *c = r->conn;

	/* That the method is not for this path comes before what is wrong with the request. */
	if (r->head.stray && r->refusal.status != 405)
		refuse(&r->refusal, 400, STRAY_TEXT);
	if (!req_has_body(r) || r->head.stray || r->head.expect || r->head.length > SKIP_MAX) {
		answer_no_route(r);
		return;
	}
	r->on_body = drop;
	r->on_body_end = answer_no_route;
	gate_body_accept(c, SKIP_MAX, r->refusal.text);
}

/* Known path, other method. */
static void
wrong_method(struct req *r, unsigned allowed)
{
	char allow[128] = "";
	size_t i;

	if (allowed & 1u << METHOD_GET)
		allowed |= 1u << METHOD_HEAD;
	allowed |= 1u << METHOD_OPTIONS;
	for (i = 0; i < sizeof(method_names) / sizeof(method_names[0]); i++) {
		if (allowed & 1u << i)
			snprintf(allow + strlen(allow), sizeof(allow) - strlen(allow), "%s%s",
			    allow[0] != '\0' ? ", " : "", method_names[i]);
	}
	req_header(r, "Allow", allow);
	if (r->head.method == METHOD_OPTIONS) {
		cors_preflight(r, allow);
		r->refusal.status = 204;
	} else
		refuse(&r->refusal, 405, "this path knows %s", allow);
	no_route(r);
}

static void
run_raw(struct req *r)
{
	r->route->handler(r);
}

static void
run(struct req *r)
{
	char value[TARGET_MAX + 1];
	size_t n;

	parse_id(r);
	if (r->head.stray) {
		req_error(r, 400, STRAY_TEXT);
		return;
	}
	if (r->query.n > 0 && req_query_bool(r, "detail", &r->detail) == -1)
		return;
	switch (r->route->body) {
	case BODY_JSON:
	case BODY_OPTIONAL:
		req_json(r, r->route->body == BODY_OPTIONAL, r->route->handler);
		break;
	case BODY_EITHER:
		if (query_get(r->query, "request", value, &n) == QUERY_NONE) {
			req_json(r, 0, r->route->handler);
			break;
		}
		/* FALLTHROUGH */
	case BODY_RAW:
		req_authenticate(r, run_raw);
		break;
	default:
		r->route->handler(r);
	}
}

void
route_request(struct req *r)
{
	unsigned allowed = 0;
	uint8_t method = r->head.method == METHOD_HEAD ? METHOD_GET : r->head.method;
	struct slice id;
	size_t i;

	for (i = 0; i < ROUTES; i++) {
		if (routes[i].access == ACCESS_DOCS && !apid.config->num[CFG_DOCS])
			continue;
		if (r->conn->metrics && routes[i].handler != metrics_get)
			continue;
		if (!matches(routes[i].pattern, r->path, &id))
			continue;
		allowed |= 1u << routes[i].method;
		if (routes[i].method == method) {
			r->route = &routes[i];
			r->id_text = id;
			run(r);
			return;
		}
	}
	if (allowed != 0) {
		wrong_method(r, allowed);
		return;
	}
	refuse(&r->refusal, 404, "there is nothing at this path");
	no_route(r);
}
