/* Files of sandboxes as resources: the list, the template, and their content (mcp.h). */
#include <stdlib.h>
#include <string.h>

#include "clients/api/text.h"
#include "clients/mcp/mcp.h"
#include "clients/mcp/uri.h"
#include "common/base64.h"
#include "common/log.h"

#define SECONDS 60
#define RESOURCES_MAX 1000

static json_t *
must(json_t *j)
{
	if (j == NULL)
		fatalx("a resource that is no JSON");
	return j;
}

json_t *
resources_templates(void)
{
	return must(
	    json_pack("[{s:s, s:s, s:s, s:s}]", "uriTemplate", "sandbox://{sandbox_id}/{+path}",
		"name", "sandbox-file", "title", "File in a sandbox", "description",
		"A file in a sandbox by its absolute path, such as "
		"sandbox://sb_0123456789abcdef/workspace/notes.txt"));
}

static void
get(struct work *w, char *path, work_next *next)
{
	struct api_call *call = api_call_new(&w->mcp->server, "GET", path);

	free(path);
	api_call_timeout(call, SECONDS);
	work_call(w, call, next);
}

static void
refuse(struct work *w, int code, const char *why)
{
	const json_t *uri = json_object_get(w->args, "uri");

	work_error(w, code, why, uri != NULL ? json_pack("{s:O}", "uri", uri) : NULL);
}

static int
not_found(const struct work *w)
{
	return w->version >= V_2026_07_28 ? RPC_INVALID_PARAMS : RPC_RESOURCE_NOT_FOUND;
}

/* What of a file the list shows. */
static void
add_file(json_t *found, const char *id, const json_t *file)
{
	const char *path = json_string_value(json_object_get(file, "path"));
	const char *name = json_string_value(json_object_get(file, "name"));
	const char *type = json_string_value(json_object_get(file, "type"));
	char *uri;

	if (path == NULL || *path != '/' || name == NULL || type == NULL ||
	    strcmp(type, "file") != 0 || strstr(path, "\xef\xbf\xbd") != NULL)
		return;
	uri = uri_write(id, path);
	json_array_append_new(
	    found, must(json_pack("{s:s, s:s, s:o, s:O?}", "uri", uri, "name", name, "description",
		       json_sprintf("%s in sandbox %s", path, id), "size",
		       json_object_get(file, "size"))));
	free(uri);
}

static void on_folder(struct work *, const struct api_error *);

/* The next sandbox of those in args, or the end. */
static void
next_folder(struct work *w)
{
	json_t *ids = json_object_get(w->args, "ids");
	size_t n = json_array_size(ids);

	if (n > 0 && json_array_size(w->found) < RESOURCES_MAX) {
		get(w,
		    api_path("/v1/sandboxes/%s/files/list?path=%%2Fworkspace",
			json_string_value(json_array_get(ids, n - 1))),
		    on_folder);
		return;
	}
	work_result(
	    w, session_cacheable(must(json_pack("{s:O}", "resources", w->found)), w->version, 0));
}

/* One that has ended meanwhile, or does not answer, has no files. */
static void
on_folder(struct work *w, const struct api_error *failed)
{
	json_t *ids = json_object_get(w->args, "ids"), *file;
	size_t i, last = json_array_size(ids) - 1;

	json_array_foreach (
	    failed == NULL ? json_object_get(api_call_json(w->call), "entries") : NULL, i, file)
		if (json_array_size(w->found) < RESOURCES_MAX)
			add_file(w->found, json_string_value(json_array_get(ids, last)), file);
	json_array_remove(ids, last);
	next_folder(w);
}

/* Newest first, since they are taken from the end. A stopped one is not started for a list. */
static void
on_sandboxes(struct work *w, const struct api_error *failed)
{
	json_t *ids = json_array(), *box;
	size_t i;

	if (failed != NULL) {
		json_decref(ids);
		refuse(w, RPC_INTERNAL_ERROR, failed->text);
		return;
	}
	json_array_foreach (json_object_get(api_call_json(w->call), "sandboxes"), i, box) {
		const char *id = json_string_value(json_object_get(box, "id"));
		const char *status = json_string_value(json_object_get(box, "status"));

		if (id != NULL && status != NULL && uri_is_id(id) && strcmp(status, "running") == 0)
			json_array_append_new(ids, json_string(id));
	}
	w->args = must(json_pack("{s:o}", "ids", ids));
	w->found = json_array();
	next_folder(w);
}

void
resources_list(struct work *w)
{
	w->doing = "looking into the sandboxes";
	get(w, strdup("/v1/sandboxes"), on_sandboxes);
}

static int
is_text(const char *p, size_t n)
{
	uint32_t ch;

	for (size_t i = 0; i < n; i += text_char(p + i, n - i, &ch))
		if (p[i] == '\0' || (text_char(p + i, n - i, &ch) == 1 && ch == 0xfffd))
			return 0;
	return 1;
}

static int
on_bytes(void *arg, const char *data, size_t n)
{
	struct work *w = arg;

	cut_add(&w->out, data, n);
	return w->out.total > MCP_RESOURCE_MAX ? -1 : 0;
}

static void
on_content(struct work *w, const struct api_error *failed)
{
	const char *uri = json_string_value(json_object_get(w->args, "uri"));
	const char *bytes = w->out.head != NULL ? w->out.head : "";
	size_t n = w->out.head_n;
	json_t *content;

	if (failed != NULL && failed->kind == API_STOPPED) {
		refuse(w, RPC_INTERNAL_ERROR,
		    "more than 8 MiB: read parts of it with the tool sandbox_exec");
		return;
	}
	if (failed != NULL) {
		refuse(w, failed->status == 404 ? not_found(w) : RPC_INTERNAL_ERROR, failed->text);
		return;
	}
	if (is_text(bytes, n)) {
		content = json_pack("{s:s, s:s, s:o}", "uri", uri, "mimeType", "text/plain", "text",
		    json_stringn(bytes, n));
	} else {
		char *blob = malloc((n + 2) / 3 * 4);

		if (blob == NULL)
			fatal("base64 of %zu bytes", n);
		content = json_pack("{s:s, s:s, s:s%}", "uri", uri, "mimeType",
		    "application/octet-stream", "blob", blob,
		    base64_encode((const uint8_t *)bytes, n, blob));
		free(blob);
	}
	work_result(w, session_cacheable(
			   must(json_pack("{s:[o]}", "contents", must(content))), w->version, 0));
}

void
resources_read(struct work *w)
{
	const json_t *name = json_object_get(w->args, "uri");
	const char *s = json_string_value(name);
	struct api_call *call;
	struct uri uri;
	char *path;

	if (strlen(s) != json_string_length(name) || uri_read(s, &uri) == -1) {
		refuse(w, not_found(w), "not a sandbox://ID/path");
		return;
	}
	path = api_path("/v1/sandboxes/%s/files?path=%s", uri.id, uri.path);
	call = api_call_new(&w->mcp->server, "GET", path);
	free(path);
	/* All of it is kept as the beginning. */
	cut_init(&w->out, 2 * MCP_RESOURCE_MAX);
	api_call_download(call, on_bytes, w);
	api_call_timeout(call, SECONDS);
	work_call(w, call, on_content);
}
