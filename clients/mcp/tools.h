/*
 * The tools as data: names, parameters and what a model is told of them. From this come the list of
 * tools and the check of what a call brings. Pure.
 */
#ifndef CLIENTS_MCP_TOOLS_H
#define CLIENTS_MCP_TOOLS_H

#include <stddef.h>
#include <jansson.h>

#include "clients/mcp/version.h"

enum tool_id {
	TOOL_CREATE,
	TOOL_LIST,
	TOOL_EXEC,
	TOOL_READ_FILE,
	TOOL_WRITE_FILE,
	TOOL_LIST_FILES,
	TOOL_SNAPSHOT,
	TOOL_ROLLBACK,
	TOOL_FORK,
	TOOL_DESTROY,
	TOOL_COUNT,
};

enum arg_kind {
	ARG_STRING,
	ARG_NAME, /* a string that goes into a path of the API: not empty, no NUL */
	ARG_ID,   /* an identifier of the API */
	ARG_INTEGER,
	ARG_NUMBER, /* above 0 */
	ARG_BOOLEAN,
};

struct tool_arg {
	const char *name; /* NULL ends the list */
	enum arg_kind kind;
	int required;
	const char *about;
	int least; /* of ARG_INTEGER */
	const char
	    *without; /* what is taken when it is not given, as JSON; NULL: nothing is said */
};

enum tool_hint {
	HINT_READS = 1,     /* changes nothing */
	HINT_DESTROYS = 2,  /* may lose what was there */
	HINT_REPEATS = 4,   /* twice is as good as once */
	HINT_OPEN_WORLD = 8 /* may reach beyond the sandboxes */
};

/* Of a result. */
#define TOOL_STRING_OR_NULL "string or null"
struct tool_member {
	const char *name; /* NULL ends the list */
	const char *type; /* of JSON Schema, or TOOL_STRING_OR_NULL */
	const char *about;
};

#define TOOL_ARGS_MAX 6

struct tool {
	enum tool_id id;
	const char *name, *title, *about;
	struct tool_arg args[TOOL_ARGS_MAX];
	unsigned hints;
	const struct tool_member *output; /* of structuredContent */
	int is_list;                      /* of such objects, as "result" */
};

extern const struct tool tools[TOOL_COUNT];

const struct tool *tool_find(const char *name);
/* For tools/list, new. */
json_t *tools_list(enum version);

#define TOOL_WHY_MAX 400
/*
 * What a call brings, NULL or an object: a new object of only what is to be sent on (no null, whole
 * numbers as integers), or NULL and why in words for the model.
 */
json_t *tool_args(const struct tool *, const json_t *args, char why[TOOL_WHY_MAX]);

#endif
