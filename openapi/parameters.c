/* The parameters of queries and headers, and the headers of answers. */
#include "openapi/loose.h"
#include "openapi/tables.h"

struct parameter {
	const char *key; /* its name in the tables and in the document's components */
	const char *name, *in;
	int required;
	const char *doc;
	const char *schema;  /* loose.h */
	const char *example; /* loose.h; NULL: none */
};

static const struct parameter parameters[] = {
    {"sandbox_id", "sandbox_id", "path", 1, "The sandbox.",
	"'type': 'string', 'pattern': '^sb_[0-9a-f]{16}$'", "'sb_6c0de4c1a8f06b1d'"},
    {"snapshot_id", "snapshot_id", "path", 1, "The snapshot.",
	"'type': 'string', 'pattern': '^snap_[0-9a-f]{16}$'", "'snap_0d1e2f3a4b5c6d7e'"},
    {"name", "name", "path", 1, "The file.", "'type': 'string', 'pattern': '^[A-Za-z0-9._-]+$'",
	"'icon.svg'"},
    {"detail", "detail", "query", 0,
	"With `true`, results of commands say more (`oom_killed`, `usage`, `signal`, "
	"`omitted_bytes`), and a sandbox that ended in the last hour is `410` with the reason "
	"instead of `404`.",
	"'type': 'boolean', 'default': false", NULL},
    {"label", "label", "query", 0, "Only sandboxes with this label: `name=value`.",
	"'type': 'string', 'pattern': '^[^=\\\\u0000]{1,63}=[^\\\\u0000]{0,255}$'", "'team=red'"},
    {"limit", "limit", "query", 0, "At most so many items; without it the list is whole.",
	"'type': 'integer', 'minimum': 1", "50"},
    {"cursor", "cursor", "query", 0,
	"The `next_cursor` of the answer before: go on behind it. Empty is the start.",
	"'type': 'string', 'pattern': '^([0-9a-f]{32})?$'", NULL},
    {"of_sandbox", "sandbox_id", "query", 0,
	"Only snapshots of this sandbox. One that does not exist has none.", "'type': 'string'",
	"'sb_6c0de4c1a8f06b1d'"},
    {"path", "path", "query", 1,
	"Absolute, or relative to `/workspace`. `..` is resolved in the text, before links are "
	"looked at.",
	"'type': 'string', 'minLength': 1, 'maxLength': 4095, 'pattern': '^[^\\\\u0000]+$'",
	"'notes/todo.txt'"},
    {"tree", "path", "query", 1,
	"Absolute, or relative to `/workspace`. `..` is resolved in the text, before links are "
	"looked at.",
	"'type': 'string', 'minLength': 1, 'maxLength': 4095, 'pattern': '^[^\\\\u0000]+$'",
	"'src'"},
    {"folder", "path", "query", 0, "The folder: absolute, or relative to `/workspace`.",
	"'type': 'string', 'minLength': 1, 'maxLength': 4095, 'pattern': '^[^\\\\u0000]+$', "
	"'default': '/workspace'",
	"'/workspace'"},
    {"mode", "mode", "query", 0, "Permissions: three or four octal digits up to 777.",
	"'type': 'string', 'pattern': '^0?[0-7]{3}$', 'default': '644'", "'755'"},
    {"encoding", "encoding", "query", 0,
	"How output becomes text: `utf-8` puts U+FFFD in the place of bytes that are none; with "
	"`base64` both streams are base64 of the exact bytes.",
	"'type': 'string', 'enum': ['utf-8', 'base64'], 'default': 'utf-8'", NULL},
    {"on_disconnect", "on_disconnect", "query", 0,
	"What becomes of the command when the client goes away before its end.",
	"'type': 'string', 'enum': ['kill', 'continue'], 'default': 'kill'", NULL},
    {"kill_others", "kill_others", "query", 0,
	"With `true`, every other process of the sandbox is ended first.",
	"'type': 'boolean', 'default': false", NULL},
    {"request", "request", "query", 0,
	"The request itself: `ExecRequest` as JSON in base64url. Then the body of the HTTP "
	"request, "
	"of any size, is the command's standard input.",
	"'type': 'string', 'pattern': '^[A-Za-z0-9_-]+={0,2}$', 'contentEncoding': 'base64url', "
	"'contentMediaType': 'application/json', 'contentSchema': {'$ref': "
	"'#/components/schemas/ExecRequest'}",
	"'eyJjb21tYW5kIjogWyJzaGEyNTZzdW0iXX0'"},
    {"Idempotency-Key", "Idempotency-Key", "header", 0,
	"For 24 hours the same key with the same body gives the same sandbox as long as that "
	"exists, also when both are sent at the same time.",
	"'type': 'string', 'minLength': 1, 'maxLength': 255", "'7f1c2a90-build-17'"},
    {"Range", "Range", "header", 0,
	"One range of bytes, such as `bytes=0-99`, `bytes=100-` or `bytes=-100`. Anything else is "
	"not looked at.",
	"'type': 'string'", "'bytes=0-99'"},
    {"If-Range", "If-Range", "header", 0,
	"With it, `Range` is not looked at: all of the file is sent.", "'type': 'string'", NULL},
    {"If-None-Match", "If-None-Match", "header", 0, "An `ETag` that the client has already.",
	"'type': 'string'", NULL},
};

struct header {
	const char *name;
	int required;
	const char *doc;
	const char *schema;
};

static const struct header headers[] = {
    {"X-Request-Id", 1,
	"Names this request in the logs: yours if you sent one of at most 64 letters, digits and "
	"`._-`, else a new one.",
	"'type': 'string', 'pattern': '^[A-Za-z0-9._-]{1,64}$', 'examples': "
	"['req_5b0f3c1d2e4a6978']"},
    {"WWW-Authenticate", 1, "How a key may be presented.", "'type': 'string', 'const': 'Bearer'"},
    {"Allow", 1, "The methods of this path.",
	"'type': 'string', 'examples': ['GET, HEAD, OPTIONS']"},
    {"Retry-After", 1, "After so many seconds it may be worth trying again.",
	"'type': 'integer', 'minimum': 1, 'examples': [5]"},
    {"ETag", 1, "Changes with the content.", "'type': 'string'"},
    {"Accept-Ranges", 1, "`Range` works here.", "'type': 'string', 'const': 'bytes'"},
    {"Content-Range", 1, "Which bytes these are, and of how many.",
	"'type': 'string', 'pattern': '^bytes [0-9]+-[0-9]+/[0-9]+$'"},
    {"X-Accel-Buffering", 1, "Asks proxies to pass lines on at once.",
	"'type': 'string', 'const': 'no'"},
};

json_t *
parameters_all(void)
{
	json_t *all = json_object();
	size_t i;

	for (i = 0; i < sizeof(parameters) / sizeof(parameters[0]); i++) {
		const struct parameter *p = &parameters[i];
		json_t *o = json_object();

		put(o, "name", json_string(p->name));
		put(o, "in", json_string(p->in));
		put(o, "required", json_boolean(p->required));
		put(o, "description", json_string(p->doc));
		put(o, "schema", loose_object(p->schema));
		if (p->example != NULL)
			put(o, "example", loose_value(p->example));
		put(all, p->key, o);
	}
	return all;
}

json_t *
headers_all(void)
{
	json_t *all = json_object();
	size_t i;

	for (i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
		json_t *o = json_object();

		put(o, "description", json_string(headers[i].doc));
		put(o, "required", json_boolean(headers[i].required));
		put(o, "schema", loose_object(headers[i].schema));
		put(all, headers[i].name, o);
	}
	return all;
}
