/* The schemas of bodies: from the tables of fields that apid's parsers use, and the settings. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apid/fields.h"
#include "openapi/loose.h"
#include "openapi/tables.h"
#include "proto/apid_managerd.h"
#include "proto/config.h"

/* A field of a body, with what its setting says. */
struct input {
	const char *name, *type;
	int64_t min;
	int def, max; /* enum config_key, or one of these: */
	const char *doc, *more;
};
enum { CFG_NONE = CONFIG_KEYS, CFG_REQUIRED };

static const struct setting {
	const char *name, *type, *def;
	int64_t max;
} settings[] = {
#define SETTING_X_ROW(key, type, def, min, max, to, doc) {"AGENT_SANDBOX_" #key, #type, def, max},
    CONFIG_TABLE(SETTING_X_ROW)};

#define INPUT_X_ROW(id, name, type, min, def, max, doc, more) \
	{name, #type, min, CFG_##def, CFG_##max, doc, more},
static const struct input create[] = {CREATE_FIELDS(INPUT_X_ROW)};
static const struct input timeout[] = {TIMEOUT_FIELDS(INPUT_X_ROW)};
static const struct input command[] = {EXEC_FIELDS(INPUT_X_ROW)};
static const struct input snapshot[] = {SNAPSHOT_FIELDS(INPUT_X_ROW)};
static const struct input rollback[] = {ROLLBACK_FIELDS(INPUT_X_ROW)};
static const struct input fork_input[] = {FORK_FIELDS(INPUT_X_ROW)};
static const struct input run[] = {RUN_FIELDS(INPUT_X_ROW)};
static const struct input run_limits[] = {RUN_LIMITS_FIELDS(INPUT_X_ROW)};

static const struct {
	const char *name, *doc;
	const struct input *fields;
	size_t n;
	int open; /* other members are not looked at */
} inputs[] = {
    {"SandboxCreate", "What a new sandbox is to be; all of it may be left out.", create,
	LENGTH(create), 0},
    {"SandboxTimeout", "A new end of a sandbox.", timeout, LENGTH(timeout), 0},
    {"ExecRequest", "A command to run.", command, LENGTH(command), 0},
    {"SnapshotCreate", "About a new snapshot.", snapshot, LENGTH(snapshot), 0},
    {"Rollback", "Where to go back to.", rollback, LENGTH(rollback), 0},
    {"Fork", "What is to be other than in the sandbox that the snapshot was made of.", fork_input,
	LENGTH(fork_input), 0},
    {"RunRequest", "A program to run.", run, LENGTH(run), 1},
    {"RunLimits", "What a run may use.", run_limits, LENGTH(run_limits), 1},
};

/* A number as settings keep it: DEC in units of 1e-9. */
static json_t *
setting_number(const struct setting *s, int64_t v)
{
	if (strcmp(s->type, "DEC") != 0)
		return json_integer(v);
	return v % 1000000000 == 0 ? json_integer(v / 1000000000) : json_real((double)v / 1e9);
}

static json_t *
setting_default(const struct setting *s)
{
	if (strcmp(s->type, "INT") == 0)
		return json_integer(strtoll(s->def, NULL, 10));
	if (strcmp(s->type, "DEC") == 0)
		return setting_number(s, (int64_t)(strtod(s->def, NULL) * 1e9 + 0.5));
	if (strcmp(s->type, "BOOL") == 0)
		return json_boolean(strcmp(s->def, "true") == 0);
	return json_string(s->def);
}

/* "null" for an optional field means that it is not given. */
static void
put_type(json_t *schema, const char *type, int optional)
{
	json_t *types;

	if (!optional) {
		put(schema, "type", json_string(type));
		return;
	}
	types = json_array();
	add(types, json_string(type));
	add(types, json_string("null"));
	put(schema, "type", types);
}

static void
put_field_type(json_t *schema, const struct input *f, const json_t *more)
{
	static const struct {
		const char *field, *json;
	} types[] = {{"STRING", "string"}, {"INTEGER", "integer"}, {"NUMBER", "number"},
	    {"BOOL", "boolean"}, {"STRINGS", "object"}};
	const char *type = json_string_value(json_object_get(more, "type"));
	size_t i;

	for (i = 0; i < LENGTH(types); i++) {
		if (strcmp(f->type, types[i].field) == 0)
			type = types[i].json;
	}
	if (type != NULL)
		put_type(schema, type, f->def != CFG_REQUIRED);
	if (strcmp(f->type, "INTEGER") == 0)
		put(schema, "minimum", json_integer(f->min));
	if (strcmp(f->type, "NUMBER") == 0)
		put(schema, "exclusiveMinimum", json_integer(0));
}

static json_t *
field_schema(const struct input *f)
{
	const struct setting *def = f->def < CONFIG_KEYS ? &settings[f->def] : NULL;
	const struct setting *max = f->max < CONFIG_KEYS ? &settings[f->max] : NULL;
	json_t *schema = json_object(), *more = loose_object(f->more);
	char text[1024];

	snprintf(text, sizeof(text), "%s%s%s%s%s%s%s", f->doc,
	    def != NULL ? " Not given: the server's `" : "", def != NULL ? def->name : "",
	    def != NULL ? "`." : "", max != NULL ? " More than the server's `" : "",
	    max != NULL ? max->name : "", max != NULL ? "` is `400`." : "");
	put(schema, "description", json_string(text));
	put_field_type(schema, f, more);
	if (max != NULL)
		put(schema, "maximum", setting_number(max, max->max));
	if (def != NULL)
		put(schema, "default", setting_default(def));
	json_object_update_missing(schema, more);
	json_decref(more);
	return schema;
}

void
bodies_add(json_t *schemas)
{
	size_t i, j;

	for (i = 0; i < LENGTH(inputs); i++) {
		json_t *o = json_object(), *properties = json_object(), *required = json_array();

		put(o, "type", json_string("object"));
		put(o, "description", json_string(inputs[i].doc));
		for (j = 0; j < inputs[i].n; j++) {
			const struct input *f = &inputs[i].fields[j];

			put(properties, f->name, field_schema(f));
			if (f->def == CFG_REQUIRED)
				add(required, json_string(f->name));
		}
		put(o, "properties", properties);
		if (json_array_size(required) > 0)
			put(o, "required", required);
		else
			json_decref(required);
		if (!inputs[i].open)
			put(o, "additionalProperties", json_false());
		put(schemas, inputs[i].name, o);
	}
}
