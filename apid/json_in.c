/* Parses and checks JSON bodies (json_in.h). */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "apid/json_in.h"

int
refuse(struct refusal *why, int status, const char *fmt, ...)
{
	va_list ap;

	why->status = status;
	va_start(ap, fmt);
	vsnprintf(why->text, sizeof(why->text), fmt, ap);
	va_end(ap);
	return -1;
}

/* The parser recurses: look at the depth before it does. */
static int
too_deep(const char *p, size_t n)
{
	size_t i, depth = 0;
	int quoted = 0;

	for (i = 0; i < n; i++) {
		if (quoted) {
			if (p[i] == '\\')
				i++;
			else if (p[i] == '"')
				quoted = 0;
		} else if (p[i] == '"') {
			quoted = 1;
		} else if (p[i] == '{' || p[i] == '[') {
			if (++depth > JSON_DEPTH_MAX)
				return 1;
		} else if ((p[i] == '}' || p[i] == ']') && depth > 0) {
			depth--;
		}
	}
	return 0;
}

static int
not_json(const char *p, size_t n, const json_error_t *error, struct refusal *why)
{
	size_t i = 0;

	while (i < n && strchr(" \t\r\n", p[i]) != NULL && p[i] != '\0')
		i++;
	if (i == n)
		return refuse(why, 422, "the body is empty: a JSON object is needed");
	if (n >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0)
		return refuse(
		    why, 422, "the body begins with a byte order mark, which JSON has not");
	return refuse(why, 422, "the body is not JSON in UTF-8 (line %d, column %d)", error->line,
	    error->column);
}

/* The parser says only behind which name it found out. */
static int
given_twice(const json_error_t *error, struct refusal *why)
{
	const char *name = strchr(error->text, '"'), *end;

	if (name == NULL || (end = strrchr(name, '"')) == name)
		return refuse(why, 422, "a field of the body is given twice");
	return refuse(why, 422, "%.*s: is given twice",
	    (int)(end - name - 1 < 64 ? end - name - 1 : 64), name + 1);
}

int
json_parse(const char *p, size_t n, json_t **out, struct refusal *why)
{
	json_error_t error;

	*out = NULL;
	if (n > JSON_BODY_MAX)
		return refuse(why, 413, "the JSON body is larger than 1 MiB");
	if (too_deep(p, n))
		return refuse(why, 422, "the JSON body is nested too deeply");
	*out = json_loadb(p, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &error);
	if (*out == NULL) {
		switch (json_error_code(&error)) {
		case json_error_numeric_overflow:
			return refuse(why, 400,
			    "a number in the body is out of range (line %d, column %d)", error.line,
			    error.column);
		case json_error_null_byte_in_key:
			return refuse(why, 400, "a name in the body contains a NUL byte");
		case json_error_duplicate_key:
			return given_twice(&error, why);
		default:
			return not_json(p, n, &error, why);
		}
	}
	if (json_is_object(*out))
		return 0;
	json_decref(*out);
	*out = NULL;
	return refuse(why, 422, "the body must be a JSON object");
}

static int
is_integer(const json_t *v)
{
	double d;

	if (json_is_integer(v))
		return 1;
	if (!json_is_real(v))
		return 0;
	d = json_real_value(v);
	/* One that is larger has no fraction. */
	return d <= -9e18 || d >= 9e18 || d == (double)(int64_t)d;
}

static int
all_strings(json_t *object)
{
	const char *key;
	json_t *v;

	json_object_foreach (object, key, v) {
		if (!json_is_string(v))
			return 0;
	}
	return 1;
}

static int
check_type(const struct field *f, json_t *v, struct refusal *why)
{
	switch (f->type) {
	case FIELD_STRING:
		return json_is_string(v) ? 0 : refuse(why, 422, "%s: must be a string", f->name);
	case FIELD_NUMBER:
		return json_is_number(v) ? 0 : refuse(why, 422, "%s: must be a number", f->name);
	case FIELD_BOOL:
		return json_is_boolean(v) ? 0
					  : refuse(why, 422, "%s: must be true or false", f->name);
	case FIELD_STRINGS:
		if (json_is_object(v) && all_strings(v))
			return 0;
		return refuse(why, 422, "%s: must be an object of strings", f->name);
	case FIELD_OBJECT:
		return json_is_object(v) ? 0 : refuse(why, 422, "%s: must be an object", f->name);
	case FIELD_INTEGER:
		if (is_integer(v) && json_int(v, 0) >= f->min)
			return 0;
		return refuse(
		    why, 422, "%s: must be an integer >= %lld", f->name, (long long)f->min);
	default:
		return 0;
	}
}

static int
take_apart(json_t *body, const struct field *field, size_t n, int others, json_t **value,
    struct refusal *why)
{
	const char *key;
	json_t *v;
	size_t i;

	memset(value, 0, n * sizeof(*value));
	if (body == NULL)
		return 0;
	json_object_foreach (body, key, v) {
		for (i = 0; i < n && strcmp(field[i].name, key) != 0; i++)
			;
		if (i == n && !others)
			return refuse(why, 422, "%.64s: unknown field", key);
		if (i == n)
			continue;
		if (json_is_null(v))
			continue;
		if (check_type(&field[i], v, why) == -1)
			return -1;
		value[i] = v;
	}
	return 0;
}

int
json_fields(json_t *body, const struct field *field, size_t n, json_t **value, struct refusal *why)
{
	return take_apart(body, field, n, 0, value, why);
}

int
json_some_fields(
    json_t *body, const struct field *field, size_t n, json_t **value, struct refusal *why)
{
	return take_apart(body, field, n, 1, value, why);
}

int64_t
json_int(json_t *v, int64_t fallback)
{
	double d;

	if (v == NULL)
		return fallback;
	if (json_is_integer(v))
		return json_integer_value(v);
	d = json_real_value(v);
	if (d >= 9e18)
		return INT64_MAX;
	return d <= -9e18 ? INT64_MIN : (int64_t)d;
}

int64_t
json_scaled(json_t *v, double scale)
{
	double d = json_number_value(v);

	if (!(d > 0))
		return -1;
	if (d >= 9e18 / scale)
		return INT64_MAX;
	d *= scale;
	return d < 1 ? 1 : (int64_t)(d + 0.5);
}
