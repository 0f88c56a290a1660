/* The routes: one table of what may be asked by which method. */
#ifndef APID_ROUTE_H
#define APID_ROUTE_H

#include "apid/req.h"
#include "apid/routes.h"

struct route {
	uint8_t method; /* enum method; HEAD goes where GET goes */
	uint8_t body;   /* enum route_body */
	uint8_t access; /* enum route_access */
	uint8_t scope;  /* enum keys_scope; 0: none */
	const char *pattern;
	void (*handler)(struct req *);
};

/* Finds the route and runs it, or answers 404, 405 or, to OPTIONS, 204. */
void route_request(struct req *);

/* For metrics: a number for each route, ROUTES for none (NULL); "other" is the pattern of that. */
#define ROUTE_X_ONE(method, body, access, scope, pattern, handler) +1
enum { ROUTES = 0 ROUTE_TABLE(ROUTE_X_ONE) };
size_t route_index(const struct route *);
const char *route_pattern(size_t);
enum method route_method(size_t);

/* Whether this is the sandbox of a run: such a one is nobody's, and not found. */
int run_has(uint64_t sandbox);

/* The handlers, one file per noun. */
#define ROUTE_X_HANDLER(method, body, access, scope, pattern, handler) void handler(struct req *);
ROUTE_TABLE(ROUTE_X_HANDLER)

#endif
