/* Checks the body of POST /v1/run (run_request.h). */
#include <string.h>

#include "apid/env.h"
#include "apid/fields.h"
#include "apid/run_request.h"
#include "common/ids.h"

static const struct language languages[] = {
    {"python", "main.py", {"python3", "python"}, "neither python3 nor python", -1},
    {"javascript", "main.js", {"node"}, "no node", CFG_NODE_IMAGE},
    {"node", "main.js", {"node"}, "no node", CFG_NODE_IMAGE}};

enum { RUN_FIELDS(FIELD_X_NAME) F_COUNT };

static const struct field fields[] = {RUN_FIELDS(FIELD_X_ROW)};

enum { L_TIMEOUT, L_MEMORY, L_OUTPUT, L_COUNT };

static const struct field limit_fields[] = {RUN_LIMITS_FIELDS(FIELD_X_ROW)};

static size_t
characters(const json_t *v)
{
	const char *p = json_string_value(v);
	size_t i, count = 0;

	for (i = 0; i < json_string_length(v); i++)
		count += ((unsigned char)p[i] & 0xc0) != 0x80;
	return count;
}

static int
read_code(const json_t *v, struct refusal *why)
{
	if (v == NULL)
		return refuse(why, 422, "code: must be given");
	if (json_string_length(v) == 0 || characters(v) > RUN_CODE_MAX)
		return refuse(why, 422, "code: must have 1 to %d characters", RUN_CODE_MAX);
	return 0;
}

static int
read_language(const json_t *v, struct run_request *run, struct refusal *why)
{
	const char *name = v != NULL ? json_string_value(v) : languages[0].name;
	size_t i;

	for (i = 0; i < sizeof(languages) / sizeof(languages[0]); i++) {
		if (strcasecmp(name, languages[i].name) == 0 && (v == NULL || !string_has_nul(v))) {
			run->language = &languages[i];
			return 0;
		}
	}
	return refuse(why, 400, "Unsupported language: %.200s", name);
}

static int64_t
least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* 0 in a setting of runs stands for what a sandbox has. */
static int64_t
memory_of(const json_t *v, const struct config *c)
{
	int64_t most = c->num[CFG_RUN_MAX_MEMORY_MB], memory = c->num[CFG_RUN_MEMORY_MB];

	if (v != NULL)
		memory = json_int((json_t *)(uintptr_t)v, 0);
	else if (memory == 0)
		memory = c->num[CFG_DEFAULT_MEMORY_MB];
	memory = least(memory, c->num[CFG_MAX_MEMORY_MB]);
	return most != 0 ? least(memory, most) : memory;
}

static int
read_limits(json_t *body, const struct config *c, struct run_request *run, struct refusal *why)
{
	int64_t most_us = c->num[CFG_MAX_EXEC_TIMEOUT_SECONDS] / 1000;
	json_t *v[L_COUNT];

	if (json_some_fields(body, limit_fields, L_COUNT, v, why) == -1)
		return -1;
	run->timeout_s = json_int(v[L_TIMEOUT], c->num[CFG_RUN_TIMEOUT_SECONDS]);
	if (run->timeout_s > RUN_TIMEOUT_MAX)
		return refuse(
		    why, 422, "timeout_seconds: must be an integer from 1 to %d", RUN_TIMEOUT_MAX);
	if (json_int(v[L_MEMORY], 0) > RUN_MEMORY_MAX)
		return refuse(
		    why, 422, "memory_mb: must be an integer from 16 to %d", RUN_MEMORY_MAX);
	run->timeout_us = least(run->timeout_s * 1000000, most_us);
	run->timeout_s = (run->timeout_us + 999999) / 1000000;
	run->memory_mb = memory_of(v[L_MEMORY], c);
	run->asked_memory = v[L_MEMORY] != NULL;
	run->output_bytes = least(json_int(v[L_OUTPUT], INT64_MAX), c->num[CFG_RUN_OUTPUT_BYTES]);
	return 0;
}

/* An empty one is none: clients send it so. */
static int
read_snapshot(const json_t *v, uint64_t *id, struct refusal *why)
{
	if (v == NULL || json_string_length(v) == 0)
		return 0;
	if (string_has_nul(v) || id_parse(json_string_value(v), "snap_", id) == -1)
		return refuse(why, 400, "Unknown snapshot: %.200s", json_string_value(v));
	return 0;
}

int
run_request_parse(
    json_t *body, const struct config *c, struct run_request *run, struct refusal *why)
{
	json_t *v[F_COUNT];

	memset(run, 0, sizeof(*run));
	if (json_some_fields(body, fields, F_COUNT, v, why) == -1 ||
	    read_code(v[F_CODE], why) == -1 || read_language(v[F_LANGUAGE], run, why) == -1 ||
	    read_limits(v[F_LIMITS], c, run, why) == -1 || egress_check(v[F_EGRESS], why) == -1 ||
	    read_snapshot(v[F_FROM], &run->from, why) == -1)
		return -1;
	run->code = v[F_CODE];
	run->egress = v[F_EGRESS];
	run->snapshot = v[F_SNAPSHOT] != NULL && json_is_true(v[F_SNAPSHOT]);
	return 0;
}
