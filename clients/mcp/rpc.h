/* JSON-RPC 2.0 as MCP uses it: what a message is, and the shapes of answers. Pure. */
#ifndef CLIENTS_MCP_RPC_H
#define CLIENTS_MCP_RPC_H

#include <jansson.h>

#define RPC_PARSE_ERROR (-32700)
#define RPC_INVALID_REQUEST (-32600)
#define RPC_METHOD_NOT_FOUND (-32601)
#define RPC_INVALID_PARAMS (-32602)
#define RPC_INTERNAL_ERROR (-32603)
#define RPC_RESOURCE_NOT_FOUND (-32002) /* before 2026-07-28 */
#define RPC_UNSUPPORTED_VERSION (-32022)

enum rpc_kind {
	RPC_REQUEST,
	RPC_NOTIFICATION,
	RPC_ANSWER, /* to a request of ours: there are none */
	RPC_WRONG,  /* code and why say what is wrong with it */
};

struct rpc {
	enum rpc_kind kind;
	json_t *id; /* borrowed: a string or an integer; NULL: none that could be used */
	const char *method;
	json_t *params; /* borrowed: an object, or NULL */
	json_t *meta;   /* its "_meta": an object, or NULL */
	int code;
	const char *why;
};

/* What a parsed message is; rpc borrows from it. */
void rpc_read(json_t *message, struct rpc *);

/* New messages; id is borrowed (NULL: null), result, data and params are taken over. */
json_t *rpc_result(json_t *id, json_t *result);
json_t *rpc_error(json_t *id, int code, const char *message, json_t *data);
json_t *rpc_notification(const char *method, json_t *params);

#endif
