/*
 * The table of routes. apid/route.c serves what stands here, and the description of the API
 * (openapi/) tells of it.
 */
#ifndef APID_ROUTES_H
#define APID_ROUTES_H

#include "common/keys_file.h"

#define SCOPE_NONE 0
#define SANDBOX_PATH "/v1/sandboxes/{sandbox_id}"
#define SNAPSHOT_PATH "/v1/snapshots/{snapshot_id}"

/*
 * Rows: method (HEAD goes where GET goes), what body it takes (enum route_body), who may ask (enum
 * route_access), which scope the key needs (common/keys_file.h; managerd decides, by its own
 * table), pattern, handler. A name in braces stands for one segment of the path.
 */
#define ROUTE_TABLE(X)                                                           \
	X(GET, NONE, OPEN, NONE, "/healthz", health_get)                         \
	X(GET, NONE, OPEN, NONE, "/health", health_short)                        \
	X(GET, NONE, KEY, ADMIN, "/metrics", metrics_get)                        \
	X(POST, JSON, KEY, EXEC, "/v1/run", run_post)                            \
	X(GET, NONE, KEY, READ, "/v1/sandboxes", sandbox_list)                   \
	X(POST, OPTIONAL, KEY, MANAGE, "/v1/sandboxes", sandbox_create)          \
	X(GET, NONE, KEY, READ, SANDBOX_PATH, sandbox_get)                       \
	X(DELETE, NONE, KEY, MANAGE, SANDBOX_PATH, sandbox_delete)               \
	X(POST, JSON, KEY, MANAGE, SANDBOX_PATH "/timeout", sandbox_timeout)     \
	X(POST, JSON, KEY, EXEC, SANDBOX_PATH "/exec", exec_run)                 \
	X(POST, EITHER, KEY, EXEC, SANDBOX_PATH "/exec/stream", exec_stream)     \
	X(GET, NONE, KEY, FILES, SANDBOX_PATH "/files", file_get)                \
	X(PUT, RAW, KEY, FILES, SANDBOX_PATH "/files", file_put)                 \
	X(GET, NONE, KEY, FILES, SANDBOX_PATH "/files/list", file_list)          \
	X(GET, NONE, KEY, FILES, SANDBOX_PATH "/files/archive", archive_get)     \
	X(PUT, RAW, KEY, FILES, SANDBOX_PATH "/files/archive", archive_put)      \
	X(POST, OPTIONAL, KEY, MANAGE, SANDBOX_PATH "/snapshots", snapshot_make) \
	X(POST, JSON, KEY, MANAGE, SANDBOX_PATH "/rollback", snapshot_rollback)  \
	X(GET, NONE, KEY, READ, "/v1/snapshots", snapshot_list)                  \
	X(GET, NONE, KEY, READ, SNAPSHOT_PATH, snapshot_get)                     \
	X(DELETE, NONE, KEY, MANAGE, SNAPSHOT_PATH, snapshot_delete)             \
	X(POST, OPTIONAL, KEY, MANAGE, SNAPSHOT_PATH "/fork", snapshot_fork)     \
	X(GET, NONE, DOCS, NONE, "/openapi.json", page_get)                      \
	X(GET, NONE, DOCS, NONE, "/docs", page_get)                              \
	X(GET, NONE, DOCS, NONE, "/console", page_get)                           \
	X(GET, NONE, DOCS, NONE, "/assets/{name}", page_get)

/* Where an error has its text also in "detail", which clients of runs read. */
#define DETAIL_PATHS(X) \
	X("/health")    \
	X("/v1/run")

enum route_body {
	BODY_NONE,     /* the handler runs at once */
	BODY_JSON,     /* the handler gets r->json */
	BODY_OPTIONAL, /* r->json may be NULL */
	BODY_RAW,      /* the handler takes the body itself; the key is good by then */
	BODY_EITHER,   /* RAW with ?request=, else JSON */
};

enum route_access {
	ACCESS_OPEN,
	ACCESS_KEY,
	ACCESS_DOCS, /* open; with AGENT_SANDBOX_DOCS=false as if it did not exist */
};

#endif
