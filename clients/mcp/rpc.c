/* JSON-RPC messages (rpc.h). */
#include <string.h>

#include "clients/mcp/rpc.h"
#include "common/log.h"

static void
wrong(struct rpc *r, int code, const char *why)
{
	r->kind = RPC_WRONG;
	r->code = code;
	r->why = why;
}

static void
read_params(json_t *message, struct rpc *r)
{
	json_t *params = json_object_get(message, "params");

	if (params == NULL || json_is_null(params))
		return;
	if (!json_is_object(params)) {
		wrong(r, RPC_INVALID_PARAMS, "params must be an object");
		return;
	}
	r->params = params;
	r->meta = json_object_get(params, "_meta");
	if (r->meta != NULL && !json_is_object(r->meta)) {
		r->meta = NULL;
		wrong(r, RPC_INVALID_PARAMS, "params._meta must be an object");
	}
}

void
rpc_read(json_t *message, struct rpc *r)
{
	json_t *id = json_object_get(message, "id");
	json_t *method = json_object_get(message, "method");
	const char *version = json_string_value(json_object_get(message, "jsonrpc"));

	memset(r, 0, sizeof(*r));
	if (json_is_string(id) || json_is_integer(id))
		r->id = id;
	r->method = json_string_value(method);
	r->kind = id != NULL ? RPC_REQUEST : RPC_NOTIFICATION;
	if (!json_is_object(message))
		wrong(r, RPC_INVALID_REQUEST, "a message must be an object");
	else if (version == NULL || strcmp(version, "2.0") != 0)
		wrong(r, RPC_INVALID_REQUEST, "\"jsonrpc\" must be \"2.0\"");
	else if (method == NULL && id != NULL &&
		 (json_object_get(message, "result") || json_object_get(message, "error")))
		r->kind = RPC_ANSWER;
	else if (r->method == NULL)
		wrong(r, RPC_INVALID_REQUEST, "\"method\" must be a string");
	else if (id != NULL && r->id == NULL)
		wrong(r, RPC_INVALID_REQUEST, "\"id\" must be a string or an integer");
	else
		read_params(message, r);
}

static json_t *
must(json_t *message)
{
	if (message == NULL)
		fatalx("a message that is no JSON");
	return message;
}

json_t *
rpc_result(json_t *id, json_t *result)
{
	return must(json_pack("{s:s, s:O, s:o}", "jsonrpc", "2.0", "id", id, "result", result));
}

json_t *
rpc_error(json_t *id, int code, const char *message, json_t *data)
{
	return must(json_pack("{s:s, s:O?, s:{s:i, s:s, s:o*}}", "jsonrpc", "2.0", "id",
	    id != NULL ? id : json_null(), "error", "code", code, "message", message, "data",
	    data));
}

json_t *
rpc_notification(const char *method, json_t *params)
{
	return must(
	    json_pack("{s:s, s:s, s:o}", "jsonrpc", "2.0", "method", method, "params", params));
}
