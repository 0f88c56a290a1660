/* The schemas of answers. */
#include <stdio.h>
#include <string.h>

#include "openapi/loose.h"
#include "openapi/tables.h"

#define TIME "'format': 'date-time', 'pattern': 'Z$'"
#define SANDBOX_ID "'pattern': '^sb_[0-9a-f]{16}$'"
#define SNAPSHOT_ID "'pattern': '^snap_[0-9a-f]{16}$'"

static const struct property sandbox[] = {
    {"id", "string", "Names the sandbox in paths.", SANDBOX_ID, "'sb_6c0de4c1a8f06b1d'", 0},
    {"status", "string", "A stopped sandbox is started by the next call that needs it.",
	"'enum': ['running', 'stopped']", "'running'", 0},
    {"image", "string", "Name of its image, as it was asked for.", "", "'python:3.12-slim'", 0},
    {"cpus", "number", "CPUs that it may use.", "'exclusiveMinimum': 0", "1.0", 0},
    {"memory_mb", "integer", "Memory in MiB.", "'minimum': 16", "512", 0},
    {"pids_limit", "integer", "Most processes and threads.", "'minimum': 8", "256", 0},
    {"network", "boolean", "Whether there is a way out.", "", "false", 0},
    {"read_only_rootfs", "boolean", "Whether all but `/workspace` and `/tmp` is read-only.", "",
	"true", 0},
    {"created_at", "string", "When it was made.", TIME, "'2026-11-29T10:00:00.000000Z'", 0},
    {"expires_at", "string", "When it will be ended.", TIME, "'2026-11-29T10:10:00.000000Z'", 0},
    {"source_snapshot_id", "string?", "What it was forked from, or last rolled back to.",
	SNAPSHOT_ID, "null", 0},
    {"labels", "object", "Names and values that were given with it.",
	"'additionalProperties': {'type': 'string'}", "{'team': 'red'}", 0},
    {"backend", "string", "What runs it.", "", "'docker'", 0},
    {"egress_allowlist", "array?", "The hosts that it may reach; null when no list counts.",
	"'items': {'type': 'string'}", "null", 0},
    {"tenant", "string", "Whose it is; only for a key with the scope `admin`.", "", "'default'",
	FOR_ADMIN},
};

static const struct property sandbox_list[] = {
    {"sandboxes", "[&Sandbox", "Oldest first.", "", NULL, 0},
    {"next_cursor", "string?", "With `limit`: the `cursor` of the next request; null at the end.",
	"'pattern': '^[0-9a-f]{32}$'", "null", 0},
};

static const struct property snapshot_info[] = {
    {"id", "string", "Names the snapshot in paths.", SNAPSHOT_ID, "'snap_0d1e2f3a4b5c6d7e'", 0},
    {"sandbox_id", "string", "What it was made of; that may be gone by now.", SANDBOX_ID,
	"'sb_6c0de4c1a8f06b1d'", 0},
    {"name", "string?", "As it was given.", "", "'before the change'", 0},
    {"image", "string", "The image of that sandbox.", "", "'python:3.12-slim'", 0},
    {"size_bytes", "integer", "Size of its tar.", "'minimum': 0", "10240", 0},
    {"created_at", "string", "The moment that it holds.", TIME, "'2026-11-29T10:01:00.000000Z'", 0},
    {"parent_snapshot_id", "string?", "The `source_snapshot_id` that the sandbox had then.",
	SNAPSHOT_ID, "null", 0},
    {"stored_bytes", "integer", "What it takes on the disk.", "'minimum': 0", "312", 0},
    {"sha256", "string", "Of the tar.", "'pattern': '^[0-9a-f]{64}$'",
	"'6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b'", 0},
    {"tenant", "string", "Whose it is; only for a key with the scope `admin`.", "", "'default'",
	FOR_ADMIN},
};

static const struct property snapshot_list[] = {
    {"snapshots", "[&Snapshot", "Oldest first.", "", NULL, 0},
    {"next_cursor", "string?", "With `limit`: the `cursor` of the next request; null at the end.",
	"'pattern': '^[0-9a-f]{32}$'", "null", 0},
};

#define EXIT_CODE                                                                                 \
	"The command's own; 128 + N when signal N ended it; 127 when it was not found, 126 when " \
	"it cannot be executed."
#define DETAIL_PROPERTIES                                                                          \
	{"oom_killed", "boolean", "Whether the kernel ended a process for want of memory.", "",    \
	    "false", 1},                                                                           \
	    {"usage", "&Usage", "What the command has used.", "", NULL, 1},                        \
	{                                                                                          \
		"signal", "string?", "Name of the signal that ended it, without SIG.", "", "null", \
		    1                                                                              \
	}

static const struct property exec_result[] = {
    {"stdout", "string", "Standard output, as `encoding` says.", "", "'hi\\n1000\\n'", 0},
    {"stderr", "string", "Standard error, likewise.", "", "''", 0},
    {"exit_code", "integer", EXIT_CODE, "", "0", 0},
    {"timed_out", "boolean",
	"Whether `timeout_seconds` were over: then every process of the command was killed, and "
	"`exit_code` is 137.",
	"", "false", 0},
    {"truncated", "boolean",
	"Whether there was more output than `AGENT_SANDBOX_MAX_EXEC_OUTPUT_BYTES`, both streams "
	"together; the rest was thrown away.",
	"", "false", 0},
    {"duration_ms", "integer", "How long it ran, in milliseconds.", "'minimum': 0", "2", 0},
    DETAIL_PROPERTIES,
    {"omitted_bytes", "integer", "How much output was thrown away.", "'minimum': 0", "0", 1},
};

static const struct property usage[] = {
    {"cpu_ms", "integer", "CPU time in milliseconds.", "'minimum': 0", "1", 0},
    {"peak_memory_bytes", "integer?", "Most memory at once; null when it is not known.",
	"'minimum': 0", "9437184", 0},
};

static const struct property output_event[] = {
    {"type", "string", "Which stream.", "'enum': ['stdout', 'stderr']", "'stdout'", 0},
    {"data", "string", "A piece of it. Characters are never split between pieces.",
	"'minLength': 1", "'hi\\n'", 0},
};

static const struct property exit_event[] = {
    {"type", "string", "The command has ended.", "'const': 'exit'", "'exit'", 0},
    {"exit_code", "integer", EXIT_CODE, "", "0", 0},
    {"timed_out", "boolean", "Whether `timeout_seconds` were over.", "", "false", 0},
    {"duration_ms", "integer", "How long it ran, in milliseconds.", "'minimum': 0", "3", 0},
    DETAIL_PROPERTIES,
};

static const struct property error_event[] = {
    {"type", "string", "It could not be completed, and no result is known.", "'const': 'error'",
	"'error'", 0},
    {"data", "string", "Why.", "", "'sandbox sb_6c0de4c1a8f06b1d was deleted'", 0},
};

static const struct property file_info[] = {
    {"name", "string", "The last part of its path; bytes that are not UTF-8 are U+FFFD.", "",
	"'a.txt'", 0},
    {"path", "string", "Absolute.", "'pattern': '^/'", "'/workspace/a.txt'", 0},
    {"type", "string", "What it is; links are not followed.",
	"'enum': ['file', 'directory', 'symlink', 'other']", "'file'", 0},
    {"size", "integer", "In bytes.", "'minimum': 0", "6", 0},
    {"modified_at", "string", "When it was last written.", TIME, "'2026-11-29T10:00:01.000000Z'",
	0},
};

static const struct property file_list[] = {
    {"path", "string", "The folder, absolute.", "'pattern': '^/'", "'/workspace'", 0},
    {"entries", "[&FileInfo", "All that is in it, sorted by name.", "", NULL, 0},
};

static const struct property unpacked[] = {
    {"path", "string", "The folder, absolute.", "'pattern': '^/'", "'/workspace'", 0},
    {"archive_bytes", "integer", "Bytes of the archive.", "'minimum': 0", "10240", 0},
};

static const struct property run_result[] = {
    {"stdout", "string", "Standard output; what is not UTF-8 is U+FFFD.", "", "'45\\n'", 0},
    {"stderr", "string", "Standard error, likewise.", "", "''", 0},
    {"exit_code", "integer", "The program's own; 128 + N when signal N ended it.", "", "0", 0},
    {"duration_ms", "integer", "How long it ran, in milliseconds.", "'minimum': 0", "14", 0},
    {"language", "string", "As it was asked for, in lower case.", "", "'python'", 0},
    {"backend", "string", "What ran it.", "", "'docker'", 0},
    {"snapshot_id", "string?", "The snapshot, if one was asked for.", SNAPSHOT_ID, "null", 0},
    {"limits_applied", "&RunLimitsApplied", "What it might use.", "", NULL, 0},
    {"oom_killed", "boolean",
	"Whether the kernel ended a process for want of memory, or, when `memory_mb` was given, "
	"Python's `MemoryError` ended the program.",
	"", "false", 0},
    {"network_isolated", "boolean", "Whether there was no way out but `egress_allowlist`.", "",
	"true", 0},
    {"egress_allowlist", "array", "The hosts that it could reach.", "'items': {'type': 'string'}",
	"[]", 0},
    {"truncated", "boolean",
	"Whether there was more output than was kept. A text that was cut ends with a whole "
	"character.",
	"", "false", 0},
};

static const struct property run_limits[] = {
    {"timeout_seconds", "integer", "Time limit in seconds.", "'minimum': 1", "30", 0},
    {"memory_mb", "integer", "Memory in MiB.", "'minimum': 16", "512", 0},
};

static const struct property short_health[] = {
    {"status", "string", "The server and the engine work.", "'const': 'ok'", "'ok'", 0},
    {"version", "string", "The server's version.", "", "'" VERSION "'", 0},
    {"backend", "string", "What runs sandboxes.", "", "'docker'", 0},
};

static const struct property health[] = {
    {"status", "string", "The server and the engine work.", "'const': 'ok'", "'ok'", 0},
    {"backend", "string", "What runs sandboxes.", "", "'docker'", 0},
    {"version", "string", "The server's version.", "", "'" VERSION "'", 0},
    {"confinement", "string",
	"`partial`: a part of the separation between the server's programs is missing on this "
	"host; `agent-sandbox doctor` says which.",
	"'enum': ['full', 'partial']", "'full'", 0},
    {"workspace_quota", "string",
	"`soft`: a workspace is limited only by the free space of the disk.",
	"'enum': ['hard', 'soft']", "'soft'", 0},
};

/* closed: it gains no fields in later versions. */
static const struct {
	const char *name, *doc;
	int closed;
	const struct property *properties;
	size_t n;
} answers[] = {
    {"Sandbox", "A sandbox. Later versions may add fields.", 0, sandbox, LENGTH(sandbox)},
    {"SandboxList", "A list of sandboxes.", 0, sandbox_list, LENGTH(sandbox_list)},
    {"ExecResult", "What became of a command.", 1, exec_result, LENGTH(exec_result)},
    {"Usage", "What a command has used.", 0, usage, LENGTH(usage)},
    {"OutputEvent", "A piece of output.", 1, output_event, LENGTH(output_event)},
    {"ExitEvent", "The last line of a stream that was completed.", 1, exit_event,
	LENGTH(exit_event)},
    {"ErrorEvent", "The last line of a stream that could not be completed.", 1, error_event,
	LENGTH(error_event)},
    {"FileInfo", "About a file.", 1, file_info, LENGTH(file_info)},
    {"FileList", "A folder.", 0, file_list, LENGTH(file_list)},
    {"Unpacked", "What was unpacked.", 0, unpacked, LENGTH(unpacked)},
    {"Snapshot", "A snapshot. Later versions may add fields.", 0, snapshot_info,
	LENGTH(snapshot_info)},
    {"SnapshotList", "A list of snapshots.", 0, snapshot_list, LENGTH(snapshot_list)},
    {"Health", "Whether the server works.", 0, health, LENGTH(health)},
    {"ShortHealth", "Whether the server works.", 0, short_health, LENGTH(short_health)},
    {"RunResult", "What became of a program. Later versions may add fields.", 0, run_result,
	LENGTH(run_result)},
    {"RunLimitsApplied", "What a run might use.", 0, run_limits, LENGTH(run_limits)},
};

static json_t *
property_schema(const struct property *p)
{
	size_t n = strlen(p->type);
	int nullable = p->type[n - 1] == '?';
	json_t *o = json_object(), *more = loose_object(p->more), *types;
	char type[32];

	put(o, "description",
	    p->who == FOR_DETAIL ? json_sprintf("Only with `detail=true`. %s", p->doc)
				 : json_string(p->doc));
	snprintf(type, sizeof(type), "%.*s", (int)(n - (nullable ? 1 : 0)), p->type);
	if (type[0] == '&') {
		put(o, "$ref", json_sprintf("#/components/schemas/%s", type + 1));
	} else if (type[0] == '[') {
		put(o, "type", json_string("array"));
		put(o, "items", reference("schemas", type + 2));
	} else if (nullable) {
		types = json_array();
		add(types, json_string(type));
		add(types, json_string("null"));
		put(o, "type", types);
	} else {
		put(o, "type", json_string(type));
	}
	json_object_update_missing(o, more);
	json_decref(more);
	return o;
}

void
answers_add(json_t *schemas)
{
	size_t i, j;

	for (i = 0; i < LENGTH(answers); i++) {
		json_t *o = json_object(), *properties = json_object(), *required = json_array();

		put(o, "type", json_string("object"));
		put(o, "description", json_string(answers[i].doc));
		for (j = 0; j < answers[i].n; j++) {
			const struct property *p = &answers[i].properties[j];

			put(properties, p->name, property_schema(p));
			if (p->who == FOR_ALL)
				add(required, json_string(p->name));
		}
		put(o, "properties", properties);
		put(o, "required", required);
		if (answers[i].closed)
			put(o, "additionalProperties", json_false());
		put(schemas, answers[i].name, o);
	}
}

/* Made of the examples of its properties; what is not sent to all is left out. */
json_t *
answer_example(const char *name)
{
	json_t *o = json_object();
	size_t i, j;

	for (i = 0; strcmp(answers[i].name, name) != 0; i++) {
		if (i + 1 == LENGTH(answers))
			wrong("there is no answer named %s", name);
	}
	for (j = 0; j < answers[i].n; j++) {
		const struct property *p = &answers[i].properties[j];

		if (p->who != FOR_ALL)
			continue;
		if (p->example != NULL) {
			put(o, p->name, loose_value(p->example));
		} else if (p->type[0] == '[') {
			json_t *list = json_array();

			add(list, answer_example(p->type + 2));
			put(o, p->name, list);
		} else {
			put(o, p->name, answer_example(p->type + 1));
		}
	}
	return o;
}
