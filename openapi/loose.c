/* Reads the tables' JSON (loose.h). */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "openapi/loose.h"

void
wrong(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("openapi: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	exit(1);
}

void
put(json_t *object, const char *name, json_t *v)
{
	if (json_object_get(object, name) != NULL)
		wrong("%s is said twice", name);
	if (json_object_set_new(object, name, v) == -1)
		wrong("%s cannot be added", name);
}

void
add(json_t *array, json_t *v)
{
	if (json_array_append_new(array, v) == -1)
		wrong("an item cannot be added");
}

static json_t *
load(const char *before, const char *text, const char *after)
{
	json_error_t error;
	char *json, *p;
	json_t *v;

	if (asprintf(&json, "%s%s%s", before, text, after) == -1)
		wrong("out of memory");
	for (p = json; *p != '\0'; p++) {
		if (*p == '\'')
			*p = '"';
		else if (*p == '`')
			*p = '\'';
	}
	v = json_loads(json, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
	if (v == NULL)
		wrong("%s: %s", text, error.text);
	free(json);
	return v;
}

json_t *
loose_object(const char *members)
{
	return load("{", members, "}");
}

json_t *
loose_value(const char *text)
{
	return load("", text, "");
}
