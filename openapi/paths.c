/* From the routes, statuses and what is said of them to the paths of the document. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apid/routes.h"
#include "apid/statuses.h"
#include "openapi/loose.h"
#include "openapi/tables.h"

/* What any request may get, before its route has a say. */
#define ANY_ERRORS "400 403 414 417 422 431 500 501 503 505"

static const struct route {
	const char *method, *pattern;
	int body, access;
	const char *scope; /* that a key needs */
} routes[] = {
#define ROUTE_X_ROW(method, body, access, scope, pattern, handler) \
	{#method, pattern, BODY_##body, ACCESS_##access, #scope},
    ROUTE_TABLE(ROUTE_X_ROW)};

static const struct status {
	int status;
	const char *reason, *code, *meaning, *example;
} statuses[] = {
#define STATUS_X_ROW(status, reason, code, meaning, example) \
	{status, reason, code, meaning, example},
    STATUS_TABLE(STATUS_X_ROW)};

json_t *
reference(const char *kind, const char *name)
{
	json_t *o = json_object();

	put(o, "$ref", json_sprintf("#/components/%s/%s", kind, name));
	return o;
}

/* The next of the words of *list; NULL behind the last one. */
static const char *
next_word(const char **list, char *word, size_t size)
{
	size_t n;

	if (*list == NULL)
		return NULL;
	*list += strspn(*list, " ");
	if ((n = strcspn(*list, " ")) == 0)
		return NULL;
	if (n >= size)
		wrong("%s: a word is too long", *list);
	snprintf(word, size, "%.*s", (int)n, *list);
	*list += n;
	return word;
}

static const struct status *
find_status(int number)
{
	size_t i;

	for (i = 0; i < LENGTH(statuses); i++) {
		if (statuses[i].status == number)
			return &statuses[i];
	}
	wrong("apid has no status %d", number);
}

static json_t *
headers_of(const char *names)
{
	json_t *o = json_object();
	char name[64];

	put(o, "X-Request-Id", reference("headers", "X-Request-Id"));
	while (next_word(&names, name, sizeof(name)) != NULL)
		put(o, name, reference("headers", name));
	return o;
}

static json_t *
error_answer(const struct status *s)
{
	const char *more = s->status == 401                       ? "WWW-Authenticate"
			   : s->status == 405                     ? "Allow"
			   : s->status == 429 || s->status == 503 ? "Retry-After"
								  : NULL;
	json_t *o = json_object(), *content = json_object(), *json = json_object();

	put(o, "description", json_sprintf("%s: %s.", s->reason, s->meaning));
	put(o, "headers", headers_of(more));
	put(json, "schema", reference("schemas", "Error"));
	put(json, "example",
	    json_pack("{s{ssss}}", "error", "code", s->code, "message", s->example));
	put(content, "application/json", json);
	put(o, "content", content);
	return o;
}

json_t *
errors_all(void)
{
	json_t *all = json_object();
	size_t i;

	for (i = 0; i < LENGTH(statuses); i++) {
		if (statuses[i].code[0] != '\0')
			put(all, statuses[i].code, error_answer(&statuses[i]));
	}
	return all;
}

static json_t *
success_content(const struct success *s)
{
	json_t *content = json_object(), *o = json_object();

	if (s->schema == NULL) {
		put(o, "schema",
		    strncmp(s->type, "text/", 5) == 0 ? loose_object("'type': 'string'")
						      : loose_object(""));
	} else {
		put(o, "schema", reference("schemas", s->schema));
		if (strcmp(s->type, "application/json") == 0 && strcmp(s->schema, "Document") != 0)
			put(o, "example", answer_example(s->schema));
	}
	put(content, s->type, o);
	return content;
}

/* An id in the answer is what these operations take in their path. */
static json_t *
links_of(const struct operation *op, const char *schema)
{
	const char *names = op->links,
		   *param = strcmp(schema, "Sandbox") == 0 ? "sandbox_id" : "snapshot_id";
	json_t *links = json_object();
	char name[64];

	while (next_word(&names, name, sizeof(name)) != NULL)
		put(links, name,
		    json_pack("{sss{ss}}", "operationId", name, "parameters", param,
			"$response.body#/id"));
	return links;
}

static int
by_number(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static void
put_errors(json_t *answers, const char *const *lists, size_t nlists)
{
	int numbers[64] = {0};
	size_t n = 0, i;
	char word[8];

	for (i = 0; i < nlists; i++) {
		const char *list = lists[i];

		while (next_word(&list, word, sizeof(word)) != NULL && n < LENGTH(numbers))
			numbers[n++] = atoi(word);
	}
	qsort(numbers, n, sizeof(numbers[0]), by_number);
	for (i = 0; i < n; i++) {
		if (i > 0 && numbers[i] == numbers[i - 1])
			continue;
		snprintf(word, sizeof(word), "%d", numbers[i]);
		put(answers, word, reference("responses", find_status(numbers[i])->code));
	}
}

static json_t *
answers_of(const struct route *route, const struct operation *op)
{
	const char *lists[] = {ANY_ERRORS, op->errors,
	    route->access == ACCESS_KEY ? "401 429" : NULL,
	    route->body == BODY_RAW    ? "413"
	    : route->body == BODY_NONE ? NULL
				       : "413 415"};
	json_t *answers = json_object();
	char number[8];
	size_t i;

	for (i = 0; i < SUCCESSES_MAX && op->ok[i].status != 0; i++) {
		const struct success *s = &op->ok[i];
		json_t *o = json_object();

		put(o, "description", json_string(s->doc));
		put(o, "headers", headers_of(s->headers));
		if (s->type != NULL)
			put(o, "content", success_content(s));
		if (op->links != NULL)
			put(o, "links", links_of(op, s->schema));
		snprintf(number, sizeof(number), "%d", find_status(s->status)->status);
		put(answers, number, o);
	}
	put_errors(answers, lists, LENGTH(lists));
	return answers;
}

static json_t *
body_of(const struct route *route, const struct operation *op)
{
	json_t *o = json_object(), *content = json_object(), *json, *raw;

	if ((route->body == BODY_RAW) != (op->body == NULL) ||
	    (route->body == BODY_RAW || route->body == BODY_EITHER) != (op->raw != NULL))
		wrong("%s: apid takes another body", op->at);
	put(o, "required", json_boolean(route->body == BODY_JSON || route->body == BODY_EITHER));
	if (op->raw != NULL)
		put(o, "description", json_string(op->raw));
	if (op->body != NULL) {
		const char *name;
		json_t *v, *examples = loose_object(op->examples), *wrapped = json_object();

		json = json_object();
		put(json, "schema", reference("schemas", op->body));
		json_object_foreach (examples, name, v) {
			put(wrapped, name, json_pack("{sO}", "value", v));
		}
		put(json, "examples", wrapped);
		put(content, "application/json", json);
		json_decref(examples);
	}
	if (op->raw != NULL) {
		raw = json_object();
		put(raw, "schema", loose_object("'type': 'string', 'format': 'binary'"));
		put(content, op->raw_type, raw);
	}
	put(o, "content", content);
	return o;
}

/* Those of the pattern, then those of the table. */
static json_t *
parameters_of(const struct route *route, const struct operation *op)
{
	const char *names = op->params, *p = route->pattern;
	json_t *list = json_array();
	char name[64];

	while ((p = strchr(p, '{')) != NULL) {
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(p + 1, "}"), p + 1);
		add(list, reference("parameters", name));
		p++;
	}
	while (next_word(&names, name, sizeof(name)) != NULL)
		add(list, reference("parameters", name));
	return list;
}

/* What is said of it, and which scope it needs. */
static void
put_doc(json_t *o, const struct route *route, const char *doc)
{
	char scope[16], *p;

	if (route->access != ACCESS_KEY) {
		if (doc != NULL)
			put(o, "description", json_string(doc));
		return;
	}
	snprintf(scope, sizeof(scope), "%s", route->scope);
	for (p = scope; *p != '\0'; p++)
		*p = (char)tolower((unsigned char)*p);
	put(o, "description",
	    json_sprintf("%s%sNeeds a key with the scope `%s`.", doc != NULL ? doc : "",
		doc != NULL ? "\n\n" : "", scope));
}

static json_t *
operation_of(const struct route *route, const struct operation *op)
{
	json_t *o = json_object(), *parameters = parameters_of(route, op);

	put(o, "operationId", json_string(op->id));
	put(o, "tags", json_pack("[s]", op->tag));
	put(o, "summary", json_string(op->summary));
	put_doc(o, route, op->doc);
	if (route->access != ACCESS_KEY)
		put(o, "security", json_array());
	if (json_array_size(parameters) > 0)
		put(o, "parameters", parameters);
	else
		json_decref(parameters);
	if (route->body != BODY_NONE)
		put(o, "requestBody", body_of(route, op));
	put(o, "responses", answers_of(route, op));
	return o;
}

static const struct operation *
find_operation(const struct route *route)
{
	const struct operation *found = NULL;
	char at[256];
	size_t i;

	snprintf(at, sizeof(at), "%s %s", route->method, route->pattern);
	for (i = 0; i < noperations; i++) {
		if (strcmp(operations[i].at, at) != 0)
			continue;
		if (found != NULL)
			wrong("%s is described twice", at);
		found = &operations[i];
	}
	if (found == NULL)
		wrong("nothing is said about %s", at);
	return found;
}

json_t *
paths_all(void)
{
	json_t *paths = json_object(), *path;
	char method[8];
	size_t i, j;

	if (noperations != LENGTH(routes))
		wrong("%zu operations are described, apid has %zu routes", noperations,
		    LENGTH(routes));
	for (i = 0; i < LENGTH(routes); i++) {
		if ((path = json_object_get(paths, routes[i].pattern)) == NULL) {
			path = json_object();
			put(paths, routes[i].pattern, path);
		}
		for (j = 0; routes[i].method[j] != '\0'; j++)
			method[j] = (char)(routes[i].method[j] | 0x20);
		method[j] = '\0';
		put(path, method, operation_of(&routes[i], find_operation(&routes[i])));
	}
	return paths;
}
