/* tools/call: from checked arguments to calls of the API, and from its answers to results (mcp.h).
 */
#include <stdlib.h>
#include <string.h>

#include "clients/mcp/mcp.h"
#include "common/log.h"

#define QUICK 60 /* seconds for calls that need no engine */
#define SLOW 660 /* for those that may pull an image or copy a workspace */

static json_t *
must(json_t *j)
{
	if (j == NULL)
		fatalx("a result that is no JSON");
	return j;
}

static json_t *
block(json_t *text)
{
	return must(json_pack("{s:s, s:o}", "type", "text", "text", must(text)));
}

/* note NULL: there is nothing to say beside it. */
static void
done(struct work *w, json_t *structured, json_t *text, json_t *note)
{
	json_t *result = must(json_pack("{s:[o], s:b}", "content", block(text), "isError", 0));

	if (note != NULL)
		json_array_append_new(json_object_get(result, "content"), block(note));
	if (w->version >= V_2025_06_18)
		json_object_set_new(result, "structuredContent", structured);
	else
		json_decref(structured);
	work_result(w, result);
}

static json_t *
as_text(const json_t *j)
{
	char *s = json_dumps(j, JSON_COMPACT);
	json_t *text = json_string(s);

	free(s);
	return text;
}

void
call_done(struct work *w, json_t *structured)
{
	done(w, structured, as_text(structured), NULL);
}

void
call_failed(struct work *w, json_t *why)
{
	work_result(w, must(json_pack("{s:[{s:s, s:o}], s:b}", "content", "type", "text", "text",
			   must(why), "isError", 1)));
}

void
call_fail(struct work *w, const char *why)
{
	call_failed(w, json_string(why));
}

static const char *
text_of(const struct work *w, const char *name)
{
	return json_string_value(json_object_get(w->args, name));
}

/* A body of some of the arguments, by the same names. */
static json_t *
body_of(const struct work *w, const char *const *names)
{
	json_t *body = json_object(), *v;

	for (; *names != NULL; names++)
		if ((v = json_object_get(w->args, *names)) != NULL)
			json_object_set(body, *names, v);
	return body;
}

/* Takes path and body (NULL: none). */
static void
ask(struct work *w, const char *method, char *path, json_t *body, int seconds, work_next *next)
{
	struct api_call *call = api_call_new(&w->mcp->server, method, path);

	free(path);
	if (body != NULL)
		api_call_body(call, body);
	api_call_timeout(call, seconds);
	work_call(w, call, next);
}

/* What of an object of the API the tool answers with: plain values, null where it has none. */
static json_t *
pick(const struct work *w, const json_t *from)
{
	json_t *out = json_object(), *v;

	for (const struct tool_member *m = w->tool->output; m->name != NULL; m++) {
		v = json_object_get(from, m->name);
		json_object_set(out, m->name,
		    v != NULL && !json_is_object(v) && !json_is_array(v) ? v : json_null());
	}
	return out;
}

static void
strange(struct work *w)
{
	call_fail(w, "the server gave an answer that is not this API's: check AGENT_SANDBOX_URL");
}

static void
on_dropped(struct work *w, const struct api_error *failed)
{
	(void)failed;
	work_result(w, json_object());
}

/* Nobody learns its id any more. */
static void
drop_sandbox(struct work *w, const json_t *sandbox)
{
	const char *id = json_string_value(json_object_get(sandbox, "id"));

	if (id == NULL)
		on_dropped(w, NULL);
	else
		ask(w, "DELETE", api_path("/v1/sandboxes/%s", id), NULL, QUICK, on_dropped);
}

/* An object of the API; the first member names it. */
static void
on_object(struct work *w, const struct api_error *failed)
{
	const json_t *object = api_call_json(w->call);

	if (failed != NULL)
		call_fail(w, failed->text);
	else if (w->dropped)
		drop_sandbox(w, object);
	else if (!json_is_string(json_object_get(object, w->tool->output->name)))
		strange(w);
	else
		call_done(w, pick(w, object));
}

/* A list, as far as it fits. */
static void
list_done(struct work *w, const json_t *entries)
{
	json_t *list = json_array(), *entry, *text, *note = NULL;
	size_t i, n = 0, total = json_array_size(entries), size;

	if (!json_is_array(entries)) {
		json_decref(list);
		strange(w);
		return;
	}
	json_array_foreach (entries, i, entry) {
		entry = pick(w, entry);
		if ((size = json_dumpb(entry, NULL, 0, JSON_COMPACT)) + n > w->mcp->max_output) {
			json_decref(entry);
			break;
		}
		n += size + 1;
		json_array_append_new(list, entry);
	}
	size = total - json_array_size(list);
	text = as_text(list);
	entry = must(json_pack("{s:o}", "result", list));
	if (size > 0) {
		json_object_set_new(entry, "omitted", json_integer((json_int_t)size));
		note = json_sprintf("[... %zu more of %zu did not fit ...]", size, total);
	}
	done(w, entry, text, note);
}

static void
on_list(struct work *w, const struct api_error *failed)
{
	if (failed != NULL)
		call_fail(w, failed->text);
	else
		list_done(w, json_object_get(api_call_json(w->call), "sandboxes"));
}

static void
on_files(struct work *w, const struct api_error *failed)
{
	if (failed != NULL)
		call_fail(w, failed->text);
	else
		list_done(w, json_object_get(api_call_json(w->call), "entries"));
}

static int
on_bytes(void *arg, const char *data, size_t n)
{
	cut_add(&((struct work *)arg)->out, data, n);
	return 0;
}

static void
on_read(struct work *w, const struct api_error *failed)
{
	uint64_t omitted;
	json_t *text;
	size_t n;
	char *s;

	if (failed != NULL) {
		call_fail(w, failed->text);
		return;
	}
	s = cut_text(&w->out, w->mcp->max_output, &n, &omitted);
	text = must(json_stringn(s, n));
	free(s);
	done(
	    w, must(json_pack("{s:O, s:b}", "result", text, "truncated", omitted > 0)), text, NULL);
}

static void
begin_read(struct work *w)
{
	char *path = api_path(
	    "/v1/sandboxes/%s/files?path=%s", text_of(w, "sandbox_id"), text_of(w, "path"));
	struct api_call *call = api_call_new(&w->mcp->server, "GET", path);

	free(path);
	cut_init(&w->out, w->mcp->max_output);
	api_call_download(call, on_bytes, w);
	api_call_timeout(call, SLOW);
	work_call(w, call, on_read);
}

static void
begin_write(struct work *w)
{
	const json_t *content = json_object_get(w->args, "content");
	char *path = api_path(
	    "/v1/sandboxes/%s/files?path=%s", text_of(w, "sandbox_id"), text_of(w, "path"));
	struct api_call *call = api_call_new(&w->mcp->server, "PUT", path);

	free(path);
	api_call_bytes(call, json_string_value(content), json_string_length(content));
	api_call_timeout(call, SLOW);
	work_call(w, call, on_object);
}

static void
on_destroyed(struct work *w, const struct api_error *failed)
{
	json_t *text;

	if (failed != NULL) {
		call_fail(w, failed->text);
		return;
	}
	text = must(json_sprintf("destroyed %s", text_of(w, "sandbox_id")));
	done(w, must(json_pack("{s:O}", "result", text)), text, NULL);
}

static void
begin_create(struct work *w)
{
	static const char *const fields[] = {
	    "image", "network", "timeout_seconds", "cpus", "memory_mb", NULL};

	w->doing = "creating the sandbox; an image that is not there yet is pulled first";
	ask(w, "POST", strdup("/v1/sandboxes"), body_of(w, fields), SLOW, on_object);
}

static void
begin_list(struct work *w)
{
	ask(w, "GET", strdup("/v1/sandboxes"), NULL, QUICK, on_list);
}

static void
begin_list_files(struct work *w)
{
	const char *path = text_of(w, "path");

	ask(w, "GET",
	    api_path("/v1/sandboxes/%s/files/list?path=%s", text_of(w, "sandbox_id"),
		path != NULL ? path : "/workspace"),
	    NULL, QUICK, on_files);
}

static void
begin_snapshot(struct work *w)
{
	static const char *const fields[] = {"name", NULL};

	w->doing = "saving the workspace";
	ask(w, "POST", api_path("/v1/sandboxes/%s/snapshots", text_of(w, "sandbox_id")),
	    body_of(w, fields), SLOW, on_object);
}

static void
begin_rollback(struct work *w)
{
	static const char *const fields[] = {"snapshot_id", NULL};

	w->doing = "rolling back the workspace";
	ask(w, "POST", api_path("/v1/sandboxes/%s/rollback", text_of(w, "sandbox_id")),
	    body_of(w, fields), SLOW, on_object);
}

static void
begin_fork(struct work *w)
{
	static const char *const fields[] = {"timeout_seconds", NULL};

	w->doing = "making a sandbox of the snapshot";
	ask(w, "POST", api_path("/v1/snapshots/%s/fork", text_of(w, "snapshot_id")),
	    body_of(w, fields), SLOW, on_object);
}

static void
begin_destroy(struct work *w)
{
	ask(w, "DELETE", api_path("/v1/sandboxes/%s", text_of(w, "sandbox_id")), NULL, QUICK,
	    on_destroyed);
}

void
call_begin(struct work *w)
{
	static void (*const begin[TOOL_COUNT])(struct work *) = {
	    [TOOL_CREATE] = begin_create,
	    [TOOL_LIST] = begin_list,
	    [TOOL_EXEC] = exec_begin,
	    [TOOL_READ_FILE] = begin_read,
	    [TOOL_WRITE_FILE] = begin_write,
	    [TOOL_LIST_FILES] = begin_list_files,
	    [TOOL_SNAPSHOT] = begin_snapshot,
	    [TOOL_ROLLBACK] = begin_rollback,
	    [TOOL_FORK] = begin_fork,
	    [TOOL_DESTROY] = begin_destroy,
	};

	begin[w->tool->id](w);
}
