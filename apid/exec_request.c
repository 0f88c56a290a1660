/* Checks a command and writes its argument record (exec_request.h). */
#include <event2/buffer.h>
#include <string.h>

#include "apid/apid.h"
#include "apid/auth.h"
#include "apid/env.h"
#include "apid/exec_request.h"
#include "apid/fields.h"
#include "apid/path.h"
#include "proto/data.h"

enum { EXEC_FIELDS(FIELD_X_NAME) F_COUNT };

static const struct field fields[] = {EXEC_FIELDS(FIELD_X_ROW)};

static int
is_blank(const json_t *v)
{
	return strspn(json_string_value(v), " \t\r\n\f\v") == json_string_length(v);
}

static int
check_array(json_t *command, struct refusal *why)
{
	size_t i;

	if (json_array_size(command) == 0)
		return refuse(why, 400, "command: must not be empty");
	for (i = 0; i < json_array_size(command); i++) {
		json_t *v = json_array_get(command, i);

		if (!json_is_string(v))
			return refuse(why, 422, "command: must be a string or an array of strings");
	}
	for (i = 0; i < json_array_size(command); i++) {
		if (string_has_nul(json_array_get(command, i)))
			return refuse(why, 400, "command: argument %zu contains a NUL byte", i);
	}
	if (is_blank(json_array_get(command, 0)))
		return refuse(why, 400, "command: the name of the program is empty");
	return 0;
}

static int
check_command(json_t *command, struct refusal *why)
{
	if (json_is_array(command))
		return check_array(command, why);
	if (!json_is_string(command))
		return refuse(why, 422, "command: must be a string or an array of strings");
	if (string_has_nul(command))
		return refuse(why, 400, "command: contains a NUL byte");
	if (is_blank(command))
		return refuse(why, 400, "command: must not be empty");
	return 0;
}

static int
check_timeout(json_t *v, const struct exec_limits *limits, int64_t *us, struct refusal *why)
{
	int64_t nano = limits->default_timeout;

	if (v != NULL && (nano = json_scaled(v, 1e9)) == -1)
		return refuse(why, 422, "timeout_seconds: must be a number > 0");
	if (nano > limits->max_timeout) {
		if (v != NULL)
			return refuse(why, 400, "timeout_seconds: must be at most %g",
			    (double)limits->max_timeout / 1e9);
		nano = limits->max_timeout;
	}
	*us = nano < 1000 ? 1 : nano / 1000;
	return 0;
}

static int
check_workdir(const json_t *v, struct refusal *why)
{
	if (v == NULL)
		return 0;
	if (string_has_nul(v))
		return refuse(why, 400, "workdir: contains a NUL byte");
	if (json_string_length(v) == 0)
		return refuse(why, 400, "workdir: must not be empty");
	if (json_string_length(v) > WORKDIR_MAX)
		return refuse(why, 400, "workdir: is too long");
	return 0;
}

/* One string with its NUL; counts. */
static int
add_argument(struct evbuffer *out, const char *p, size_t n, size_t *total)
{
	if (n >= ARG_MAX_ONE)
		return -1;
	*total += n + 1;
	evbuffer_add(out, p, n + 1);
	return *total > ARGS_MAX ? -1 : 0;
}

static int
add_json(struct evbuffer *out, const json_t *v, size_t *total)
{
	return add_argument(out, json_string_value(v), json_string_length(v), total);
}

static int
add_command(struct evbuffer *out, json_t *command, uint32_t *argc, size_t *total)
{
	size_t i;

	if (json_is_string(command)) {
		*argc = 3;
		if (add_argument(out, "/bin/sh", 7, total) == -1 ||
		    add_argument(out, "-c", 2, total) == -1)
			return -1;
		return add_json(out, command, total);
	}
	*argc = (uint32_t)json_array_size(command);
	for (i = 0; i < json_array_size(command); i++) {
		if (add_json(out, json_array_get(command, i), total) == -1)
			return -1;
	}
	return 0;
}

static int
add_env(struct evbuffer *out, json_t *env, uint32_t *envc, size_t *total)
{
	const char *name;
	json_t *v;

	*envc = (uint32_t)json_object_size(env);
	json_object_foreach (env, name, v) {
		*total += strlen(name) + 1;
		evbuffer_add(out, name, strlen(name));
		evbuffer_add(out, "=", 1);
		if (add_json(out, v, total) == -1)
			return -1;
	}
	return 0;
}

static void
add_workdir(struct evbuffer *out, const json_t *v)
{
	static const char base[] = "/workspace";
	const char *dir = v != NULL ? json_string_value(v) : base;

	if (dir[0] != '/') {
		evbuffer_add(out, base, sizeof(base) - 1);
		evbuffer_add(out, "/", 1);
	}
	evbuffer_add(out, dir, strlen(dir) + 1);
}

/* Takes the strings behind the head. */
static void
take_args(struct exec_request *e, struct evbuffer *strings, const struct r_args *head)
{
	evbuffer_prepend(strings, head, sizeof(*head));
	e->args = strings;
	e->job.args_len = (uint32_t)evbuffer_get_length(strings);
	sha256(evbuffer_pullup(strings, -1), e->job.args_len, e->job.args_sha256);
}

static int
write_args(json_t **v, struct exec_request *e, struct refusal *why)
{
	struct evbuffer *strings = buffer_new();
	struct r_args head = {0};
	size_t total = 0;

	if (add_command(strings, v[F_COMMAND], &head.argc, &total) == -1 ||
	    add_env(strings, v[F_ENV], &head.envc, &total) == -1) {
		evbuffer_free(strings);
		return refuse(why, 413,
		    "command and env are larger than 256 KiB, or one of them than 128 KiB");
	}
	add_workdir(strings, v[F_WORKDIR]);
	take_args(e, strings, &head);
	return 0;
}

int
exec_request_parse(
    json_t *body, const struct exec_limits *limits, struct exec_request *e, struct refusal *why)
{
	json_t *v[F_COUNT];
	size_t bytes;

	memset(e, 0, sizeof(*e));
	if (json_fields(body, fields, F_COUNT, v, why) == -1 ||
	    check_command(v[F_COMMAND], why) == -1 || env_check(v[F_ENV], &bytes, why) == -1 ||
	    check_workdir(v[F_WORKDIR], why) == -1 ||
	    check_timeout(v[F_TIMEOUT], limits, &e->job.timeout_us, why) == -1)
		return -1;
	e->input = v[F_STDIN];
	return write_args(v, e, why);
}

void
exec_request_argv(const char *const *argv, int64_t timeout_us, struct exec_request *e)
{
	struct evbuffer *strings = buffer_new();
	struct r_args head = {0};

	memset(e, 0, sizeof(*e));
	for (; argv[head.argc] != NULL; head.argc++)
		evbuffer_add(strings, argv[head.argc], strlen(argv[head.argc]) + 1);
	add_workdir(strings, NULL);
	e->job.timeout_us = timeout_us;
	take_args(e, strings, &head);
}
