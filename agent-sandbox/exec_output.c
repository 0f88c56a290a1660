/* What becomes of a command's output: written as it is, as events, or collected (exec.h). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent-sandbox/client.h"
#include "agent-sandbox/exec.h"
#include "agent-sandbox/show.h"
#include "common/base64.h"
#include "common/log.h"

#define RESULT_MAX ((size_t)64 << 20) /* bytes of both streams together */

struct collected {
	char *p;
	size_t n, room;
};

static struct {
	enum exec_output how;
	int failed; /* errno */
	struct collected streams[2];
	long long omitted;
	json_t *end;
} output;

void
exec_output_init(enum exec_output how)
{
	output.how = how;
}

int
exec_output_errno(void)
{
	return output.failed;
}

static int
write_all(int fd, const char *p, size_t n)
{
	if (show_write(fd, p, n) == 0)
		return 0;
	output.failed = errno;
	return -1;
}

static int
write_raw(int which, const char *data, size_t n)
{
	static char *buf;
	static size_t room;
	size_t len;

	if (n * 3 / 4 + 1 > room) {
		free(buf);
		room = n * 3 / 4 + 1;
		if ((buf = malloc(room)) == NULL)
			fatal("output of %zu bytes", room);
	}
	if (base64_decode(data, n, 0, buf, &len) == -1) {
		output.failed = EBADMSG;
		return -1;
	}
	return write_all(which == 0 ? STDOUT_FILENO : STDERR_FILENO, buf, len);
}

static int
write_event(const json_t *event)
{
	char *line = show_dump(event, JSON_COMPACT);
	int e;

	e = write_all(STDOUT_FILENO, line, strlen(line));
	free(line);
	return e == 0 ? write_all(STDOUT_FILENO, "\n", 1) : -1;
}

static void
collect(int which, const char *data, size_t n)
{
	struct collected *c = &output.streams[which];

	if (output.omitted > 0 || output.streams[0].n + output.streams[1].n + n > RESULT_MAX) {
		output.omitted += (long long)n;
		return;
	}
	if (c->n + n > c->room) {
		c->room = (c->n + n) * 2;
		if ((c->p = realloc(c->p, c->room)) == NULL)
			fatal("output of %zu bytes", c->room);
	}
	memcpy(c->p + c->n, data, n);
	c->n += n;
}

static int
take_data(int which, const json_t *event, const json_t *data)
{
	switch (output.how) {
	case EXEC_RAW:
		return write_raw(which, json_string_value(data), json_string_length(data));
	case EXEC_EVENTS:
		return write_event(event);
	case EXEC_RESULT:
		collect(which, json_string_value(data), json_string_length(data));
		break;
	}
	return 0;
}

static int
not_ours(void)
{
	output.failed = EBADMSG;
	return -1;
}

static int
take_end(const json_t *event, struct exec_end *end)
{
	const json_t *code = json_object_get(event, "exit_code");

	if (!json_is_integer(code) || json_integer_value(code) < 0 ||
	    json_integer_value(code) > 255 || !json_is_boolean(json_object_get(event, "timed_out")))
		return not_ours();
	end->known = 1;
	end->exit_code = (int)json_integer_value(code);
	end->timed_out = json_is_true(json_object_get(event, "timed_out"));
	if (output.how == EXEC_EVENTS)
		return write_event(event);
	if (output.how == EXEC_RESULT)
		output.end = json_deep_copy(event);
	return 0;
}

int
exec_output_event(const json_t *event, struct exec_end *end)
{
	const char *type = client_text(event, "type");
	const json_t *data = json_object_get(event, "data");

	if (strcmp(type, "exit") == 0)
		return take_end(event, end);
	if (*type == '\0')
		return not_ours();
	/* Later servers may say more. */
	if (strcmp(type, "error") != 0 && strcmp(type, "stdout") != 0 &&
	    strcmp(type, "stderr") != 0)
		return 0;
	if (!json_is_string(data))
		return not_ours();
	if (strcmp(type, "error") == 0) {
		free(end->error);
		if ((end->error = strdup(json_string_value(data))) == NULL)
			fatal("strdup");
		return output.how == EXEC_EVENTS ? write_event(event) : 0;
	}
	return take_data(strcmp(type, "stderr") == 0, event, data);
}

void
exec_output_end(void)
{
	static const char *const names[] = {"stdout", "stderr"};
	json_t *result;

	if (output.how != EXEC_RESULT || output.end == NULL)
		return;
	result = json_object();
	for (int i = 0; i < 2; i++) {
		const struct collected *c = &output.streams[i];

		json_object_set_new(result, names[i], json_stringn(c->p != NULL ? c->p : "", c->n));
	}
	json_object_del(output.end, "type");
	json_object_update(result, output.end);
	json_object_set_new(result, "truncated", json_boolean(output.omitted > 0));
	show_json(result);
	json_decref(result);
}
