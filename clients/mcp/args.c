/* From the table of tools: what tools/list says, and the check of what tools/call brings (tools.h).
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "clients/api/text.h"
#include "clients/mcp/tools.h"
#include "clients/mcp/uri.h"
#include "common/log.h"

static const char *const kind_types[] = {
    [ARG_STRING] = "string",
    [ARG_NAME] = "string",
    [ARG_ID] = "string",
    [ARG_INTEGER] = "integer",
    [ARG_NUMBER] = "number",
    [ARG_BOOLEAN] = "boolean",
};

static json_t *
must(json_t *j)
{
	if (j == NULL)
		fatalx("the table of tools is no JSON");
	return j;
}

static json_t *
arg_schema(const struct tool_arg *a)
{
	json_t *s =
	    must(json_pack("{s:s, s:s}", "type", kind_types[a->kind], "description", a->about));

	if (a->kind == ARG_INTEGER)
		json_object_set_new(s, "minimum", json_integer(a->least));
	if (a->kind == ARG_NUMBER)
		json_object_set_new(s, "exclusiveMinimum", json_integer(0));
	if (a->kind == ARG_NAME || a->kind == ARG_ID)
		json_object_set_new(s, "minLength", json_integer(1));
	if (a->without != NULL)
		json_object_set_new(
		    s, "default", must(json_loads(a->without, JSON_DECODE_ANY, NULL)));
	return s;
}

static json_t *
input_schema(const struct tool *t)
{
	json_t *properties = json_object(), *required = json_array(), *schema;

	for (const struct tool_arg *a = t->args; a->name != NULL; a++) {
		json_object_set_new(properties, a->name, arg_schema(a));
		if (a->required)
			json_array_append_new(required, json_string(a->name));
	}
	schema = must(json_pack("{s:s, s:o, s:b}", "type", "object", "properties", properties,
	    "additionalProperties", 0));
	if (json_array_size(required) > 0)
		json_object_set(schema, "required", required);
	json_decref(required);
	return schema;
}

static json_t *
member_schema(const struct tool_member *m)
{
	if (strcmp(m->type, TOOL_STRING_OR_NULL) == 0)
		return must(json_pack("{s:[{s:s}, {s:s}], s:s}", "anyOf", "type", "string", "type",
		    "null", "description", m->about));
	return must(json_pack("{s:s, s:s}", "type", m->type, "description", m->about));
}

static json_t *
output_schema(const struct tool *t)
{
	json_t *properties = json_object(), *required = json_array(), *schema;

	for (const struct tool_member *m = t->output; m->name != NULL; m++) {
		json_object_set_new(properties, m->name, member_schema(m));
		json_array_append_new(required, json_string(m->name));
	}
	schema = must(json_pack(
	    "{s:s, s:o, s:o}", "type", "object", "properties", properties, "required", required));
	if (!t->is_list)
		return schema;
	return must(json_pack("{s:s, s:{s:{s:s, s:o}, s:{s:s, s:s}}, s:[s]}", "type", "object",
	    "properties", "result", "type", "array", "items", schema, "omitted", "type", "integer",
	    "description", "How many more there are that did not fit.", "required", "result"));
}

json_t *
tools_list(enum version version)
{
	json_t *list = json_array();

	for (const struct tool *t = tools; t < tools + TOOL_COUNT; t++) {
		json_t *j = must(json_pack("{s:s, s:s, s:o}", "name", t->name, "description",
		    t->about, "inputSchema", input_schema(t)));

		if (version >= V_2025_03_26)
			json_object_set_new(j, "annotations",
			    must(json_pack("{s:s, s:b, s:b, s:b, s:b}", "title", t->title,
				"readOnlyHint", (t->hints & HINT_READS) != 0, "destructiveHint",
				(t->hints & HINT_DESTROYS) != 0, "idempotentHint",
				(t->hints & (HINT_REPEATS | HINT_READS)) != 0, "openWorldHint",
				(t->hints & HINT_OPEN_WORLD) != 0)));
		if (version >= V_2025_06_18) {
			json_object_set_new(j, "title", must(json_string(t->title)));
			json_object_set_new(j, "outputSchema", must(output_schema(t)));
		}
		json_array_append_new(list, j);
	}
	return list;
}

static json_t *
say(char *why, const char *fmt, ...)
{
	char text[TOOL_WHY_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	text_line(text, strlen(text), why, TOOL_WHY_MAX);
	return NULL;
}

static const char *
type_of(const json_t *v)
{
	switch (json_typeof(v)) {
	case JSON_OBJECT:
		return "an object";
	case JSON_ARRAY:
		return "an array";
	case JSON_STRING:
		return "a string";
	case JSON_INTEGER:
	case JSON_REAL:
		return "a number";
	default:
		return "true or false";
	}
}

static json_t *
check_string(const struct tool_arg *a, json_t *v, char *why)
{
	const char *s = json_string_value(v);

	if (s == NULL)
		return say(why, "%s: must be a string, not %s", a->name, type_of(v));
	if (a->kind != ARG_STRING && json_string_length(v) == 0)
		return say(why, "%s: must not be empty", a->name);
	if (a->kind != ARG_STRING && strlen(s) != json_string_length(v))
		return say(why, "%s: must not contain a NUL character", a->name);
	if (a->kind == ARG_ID && !uri_is_id(s))
		return say(why, "%s: \"%.80s\" is not an id; %s", a->name, s, a->about);
	return json_incref(v);
}

/* 60.0 is a whole number too. */
static json_t *
check_integer(const struct tool_arg *a, json_t *v, char *why)
{
	double d = json_number_value(v);

	if (!json_is_number(v))
		return say(why, "%s: must be a whole number, not %s", a->name, type_of(v));
	if (d < a->least || d > 9e15 || d != (double)(json_int_t)d)
		return say(why, "%s: must be a whole number of at least %d", a->name, a->least);
	return json_is_integer(v) ? json_incref(v) : json_integer((json_int_t)d);
}

static json_t *
check(const struct tool_arg *a, json_t *v, char *why)
{
	switch (a->kind) {
	case ARG_INTEGER:
		return check_integer(a, v, why);
	case ARG_NUMBER:
		if (!json_is_number(v))
			return say(why, "%s: must be a number, not %s", a->name, type_of(v));
		if (!(json_number_value(v) > 0))
			return say(why, "%s: must be above 0", a->name);
		return json_incref(v);
	case ARG_BOOLEAN:
		if (!json_is_boolean(v))
			return say(why, "%s: must be true or false", a->name);
		return json_incref(v);
	default:
		return check_string(a, v, why);
	}
}

static const struct tool_arg *
find_arg(const struct tool *t, const char *name)
{
	for (const struct tool_arg *a = t->args; a->name != NULL; a++)
		if (strcmp(a->name, name) == 0)
			return a;
	return NULL;
}

/* An argument that does not exist: says which do. */
static json_t *
unknown(const struct tool *t, const char *name, char *why)
{
	char known[TOOL_WHY_MAX] = "";
	size_t n = 0;

	for (const struct tool_arg *a = t->args; a->name != NULL; a++)
		n += (size_t)snprintf(
		    known + n, sizeof(known) - n, "%s%s", n > 0 ? ", " : "", a->name);
	return say(why, "%.80s: %s has no such argument; it takes %s", name, t->name,
	    n > 0 ? known : "none");
}

json_t *
tool_args(const struct tool *t, const json_t *args, char why[TOOL_WHY_MAX])
{
	json_t *out = json_object(), *v;
	const char *name;

	why[0] = '\0';
	json_object_foreach ((json_t *)args, name, v) {
		const struct tool_arg *a = find_arg(t, name);

		if (a == NULL)
			unknown(t, name, why);
		else if (!json_is_null(v) && (v = check(a, v, why)) != NULL)
			json_object_set_new(out, name, v);
		if (why[0] != '\0')
			break;
	}
	for (const struct tool_arg *a = t->args; a->name != NULL && why[0] == '\0'; a++)
		if (a->required && json_object_get(out, a->name) == NULL)
			say(why, "%s: is missing. %s", a->name, a->about);
	if (why[0] == '\0')
		return out;
	json_decref(out);
	return NULL;
}
