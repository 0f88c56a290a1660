/* sandbox_exec: a command as a stream, its output in bounded memory, and its result (mcp.h). */
#include <stdlib.h>
#include <string.h>

#include "clients/api/text.h"
#include "clients/mcp/mcp.h"
#include "common/log.h"

#define LONGEST 3660 /* seconds: the longest command a server allows by default, and a minute */
#define GRACE 60     /* seconds that a server may take beyond the command's own limit */

static int
take_output(struct work *w, struct cut *out, const json_t *event)
{
	const json_t *data = json_object_get(event, "data");

	if (!json_is_string(data))
		return -1;
	cut_add(out, json_string_value(data), json_string_length(data));
	progress_output(w, json_string_value(data), json_string_length(data));
	return 0;
}

/* Output, and one event that ends it; a later server may have others between. -1: not this API's.
 */
static int
on_event(void *arg, const json_t *event)
{
	struct work *w = arg;
	const char *type = json_string_value(json_object_get(event, "type"));

	if (type == NULL || w->last != NULL)
		return -1;
	if (strcmp(type, "stdout") == 0)
		return take_output(w, &w->out, event);
	if (strcmp(type, "stderr") == 0)
		return take_output(w, &w->err, event);
	if (strcmp(type, "exit") == 0 || strcmp(type, "error") == 0)
		w->last = json_incref((json_t *)event);
	return 0;
}

/* Both streams share the room; what one does not need the other may have. */
static size_t
share(size_t room, uint64_t mine, uint64_t other)
{
	if (mine + other <= room || mine <= room / 2)
		return room;
	return other < room / 2 ? room - (size_t)other : room / 2;
}

static json_t *
text_of(const struct work *w, const struct cut *c, const struct cut *other, int *truncated)
{
	uint64_t omitted;
	size_t n;
	char *s = cut_text(c, share(w->mcp->max_output, c->total, other->total), &n, &omitted);
	json_t *text = json_stringn(s, n);

	free(s);
	if (omitted > 0)
		*truncated = 1;
	return text;
}

/* NULL: the server did not say how it ended. */
static json_t *
result(const struct work *w)
{
	json_t *code = json_object_get(w->last, "exit_code");
	json_t *ms = json_object_get(w->last, "duration_ms"), *out, *err;
	int truncated = 0;

	if (!json_is_integer(code) || !json_is_integer(ms))
		return NULL;
	out = text_of(w, &w->out, &w->err, &truncated);
	err = text_of(w, &w->err, &w->out, &truncated);
	return json_pack("{s:o, s:o, s:O, s:b, s:b, s:O}", "stdout", out, "stderr", err,
	    "exit_code", code, "timed_out", json_is_true(json_object_get(w->last, "timed_out")),
	    "truncated", truncated, "duration_ms", ms);
}

/* What it printed before it was lost is worth telling. */
static void
fail(struct work *w, const char *why)
{
	const struct cut *more = w->out.total > 0 ? &w->out : &w->err;
	size_t n, first;
	char *out, *text;

	if (more->total == 0) {
		call_fail(w, why);
		return;
	}
	out = cut_text(more, w->mcp->max_output / 2, &n, NULL);
	if ((text = malloc(strlen(why) + n + 64)) == NULL)
		fatal("malloc");
	first = (size_t)(stpcpy(stpcpy(text, why), "\nOutput until then:\n") - text);
	memcpy(text + first, out, n);
	call_failed(w, json_stringn(text, first + n));
	free(text);
	free(out);
}

/* The server's reason, as one line. */
static void
lost(struct work *w, const char *why)
{
	char line[API_TEXT_MAX];

	text_line(why, strlen(why), line, sizeof(line));
	fail(w, line);
}

static void
on_end(struct work *w, const struct api_error *failed)
{
	const char *type = json_string_value(json_object_get(w->last, "type"));
	const char *why = json_string_value(json_object_get(w->last, "data"));
	json_t *r;

	if (failed != NULL && failed->kind == API_STOPPED)
		fail(w, "the server sent events that are not this API's: check AGENT_SANDBOX_URL");
	else if (failed != NULL)
		fail(w, failed->text);
	else if (type == NULL)
		fail(w, "the server ended the stream without saying how the command ended");
	else if (strcmp(type, "error") == 0)
		lost(w, why != NULL ? why : "the command was lost");
	else if ((r = result(w)) == NULL)
		fail(w, "the server did not say how the command ended");
	else
		call_done(w, r);
}

void
exec_begin(struct work *w)
{
	const json_t *seconds = json_object_get(w->args, "timeout_seconds");
	json_t *body = json_copy(w->args);
	char *path = api_path("/v1/sandboxes/%s/exec/stream",
	    json_string_value(json_object_get(w->args, "sandbox_id")));
	struct api_call *call = api_call_new(&w->mcp->server, "POST", path);
	double limit = seconds != NULL ? json_number_value(seconds) + GRACE : LONGEST;

	free(path);
	json_object_del(body, "sandbox_id");
	cut_init(&w->out, w->mcp->max_output);
	cut_init(&w->err, w->mcp->max_output);
	w->doing = "the command is running";
	api_call_body(call, body);
	api_call_events(call, on_event, w);
	/* More than a server can allow is refused there. */
	api_call_timeout(call, limit < 1000000 ? limit : 0);
	work_call(w, call, on_end);
}
