/*
 * The id of a message that the JSON parser does not take (salvage.h): a number that is too large, a
 * name that comes twice, nesting without end. Whoever sent it waits for an answer by this id.
 */
#include <string.h>

#include "clients/mcp/salvage.h"

static size_t
skip_blanks(const char *p, size_t at, size_t n)
{
	while (at < n && p[at] != '\0' && strchr(" \t\r\n", p[at]) != NULL)
		at++;
	return at;
}

/* Behind the string that begins at at. */
static size_t
skip_string(const char *p, size_t at, size_t n)
{
	for (at++; at < n && p[at] != '"'; at++)
		if (p[at] == '\\')
			at++;
	return at < n ? at + 1 : n;
}

static size_t
skip_word(const char *p, size_t at, size_t n)
{
	while (at < n && p[at] != '\0' && strchr("+-.0123456789Ee", p[at]) != NULL)
		at++;
	return at;
}

/* The value of the member "id" whose name ends at at; NULL: it is none. */
static json_t *
read_value(const char *p, size_t at, size_t n)
{
	size_t end;
	json_t *id;

	at = skip_blanks(p, at, n);
	if (at == n || p[at] != ':')
		return NULL;
	at = skip_blanks(p, at + 1, n);
	if (at == n)
		return NULL;
	end = p[at] == '"' ? skip_string(p, at, n) : skip_word(p, at, n);
	id = json_loadb(p + at, end - at, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
	if (json_is_string(id) || json_is_integer(id))
		return id;
	json_decref(id);
	return NULL;
}

json_t *
salvage_id(const char *p, size_t n)
{
	json_t *id = NULL, *one;
	size_t at = skip_blanks(p, 0, n), depth = 0, end;
	int many = 0;

	if (at == n || p[at] != '{')
		return NULL;
	do {
		end = at + 1;
		if (p[at] == '"') {
			end = skip_string(p, at, n);
			one = depth == 1 && end - at == 4 && memcmp(p + at, "\"id\"", 4) == 0
				  ? read_value(p, end, n)
				  : NULL;
			many |= one != NULL && id != NULL;
			json_decref(id != NULL ? one : NULL);
			id = id != NULL ? id : one;
		} else if (p[at] == '{' || p[at] == '[') {
			depth++;
		} else if (p[at] == '}' || p[at] == ']') {
			depth--;
		}
		at = end;
	} while (depth > 0 && at < n);
	if (depth == 0 && skip_blanks(p, at, n) == n && !many)
		return id;
	json_decref(id);
	return NULL;
}
