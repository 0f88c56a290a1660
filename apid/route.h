/* The routes: one table of what may be asked by which method. */
#ifndef APID_ROUTE_H
#define APID_ROUTE_H

#include "apid/req.h"

enum route_body {
	BODY_NONE,     /* the handler runs at once */
	BODY_JSON,     /* the handler gets r->json */
	BODY_OPTIONAL, /* r->json may be NULL */
	BODY_RAW,      /* the handler takes the body itself; the key is good by then */
	BODY_EITHER,   /* RAW with ?request=, else JSON */
};

struct route {
	uint8_t method; /* enum method; HEAD goes where GET goes */
	uint8_t body;   /* enum route_body */
	uint8_t needs_key;
	const char *pattern; /* {sb} and {snap} stand for one id */
	void (*handler)(struct req *);
};

/* Finds the route and runs it, or answers 404, 405 or, to OPTIONS, 204. */
void route_request(struct req *);

/* The handlers, one file per noun. */
void health_get(struct req *);
void sandbox_create(struct req *);
void sandbox_list(struct req *);
void sandbox_get(struct req *);
void sandbox_delete(struct req *);
void sandbox_timeout(struct req *);
void exec_run(struct req *);
void exec_stream(struct req *);
void file_get(struct req *);
void file_put(struct req *);
void file_list(struct req *);
void archive_get(struct req *);
void archive_put(struct req *);
void snapshot_make(struct req *);
void snapshot_list(struct req *);
void snapshot_get(struct req *);
void snapshot_delete(struct req *);
void snapshot_rollback(struct req *);
void snapshot_fork(struct req *);

#endif
