/* Calls of the engine: a path with the API version in front, a body of JSON or tar, an answer of
 * JSON. */
#include "dockerd-proxy/proxy.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pending {
	struct engine_call call;
	char *body;
};

static void
on_done(void *arg, int status, const char *data, size_t len)
{
	struct pending *p = arg;
	json_t *json = status != 0 ? json_loadb(data, len, 0, NULL) : NULL;

	p->call.done(p->call.arg, status, json);
	json_decref(json);
	free(p->body);
	free(p);
}

static void
on_line(void *arg, const char *line, size_t len)
{
	struct pending *p = arg;
	json_t *json = json_loadb(line, len, 0, NULL);

	if (json != NULL)
		p->call.line(p->call.arg, json);
	json_decref(json);
}

void
engine_call(const struct engine_call *call, const char *fmt, ...)
{
	struct uhttp_call http = {
	    .method = call->method, .seconds = call->seconds, .done = on_done};
	struct pending *p = mem_new(sizeof(*p));
	char *rest, *path = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&rest, fmt, ap) < 0 || asprintf(&path, "/v1.%d%s", proxy.minor, rest) < 0)
		fatalx("out of memory");
	va_end(ap);
	p->call = *call;
	http.arg = p;
	http.line = call->line != NULL ? on_line : NULL;
	if (call->json != NULL) {
		if ((p->body = json_dumps(call->json, JSON_COMPACT)) == NULL)
			fatalx("json_dumps");
		json_decref(call->json);
		http.type = "application/json";
		http.body = p->body;
		http.len = strlen(p->body);
	} else if (call->tar != NULL) {
		http.type = "application/x-tar"; /* else the engine takes it for a form, and unpacks
						    nothing */
		http.body = call->tar;
		http.len = call->tar_len;
		http.reset_is_fine = 1; /* from 26 on the padding is not read */
	}
	/* Which version to ask for must be asked without one. */
	uhttp_call(&http, strcmp(rest, "/version") == 0 ? rest : path);
	free(rest);
	free(path);
}

void
ask_list(const char *path, const char *key, const char *value, const char *name, const char *other,
    engine_done done, void *arg)
{
	json_t *json = json_pack(
	    "{s[s++]}", "label", key, value != NULL ? "=" : "", value != NULL ? value : "");
	char *text, *escaped;

	if (name != NULL)
		json_object_set_new(json, "name", json_pack("[ss*]", name, other));
	if ((text = json_dumps(json, JSON_COMPACT)) == NULL)
		fatalx("json_dumps");
	escaped = uhttp_escape(text);
	ask("GET", NULL, done, arg, "%sfilters=%s", path, escaped);
	json_decref(json);
	free(text);
	free(escaped);
}

void *
mem_new(size_t size)
{
	void *p = calloc(1, size);

	if (p == NULL)
		fatalx("out of memory");
	return p;
}

const char *
text_at(json_t *json, const char *key)
{
	const char *text = json_string_value(json_object_get(json, key));

	return text != NULL ? text : "";
}

const char *
label_of(json_t *item, const char *label)
{
	return text_at(json_object_get(item, "Labels"), label);
}

int
id_valid(const char *id)
{
	return strlen(id) == CONTAINER_ID_LEN && strspn(id, "0123456789abcdef") == CONTAINER_ID_LEN;
}

int
image_id_valid(const char *id)
{
	return strncmp(id, "sha256:", 7) == 0 && id_valid(id + 7);
}
