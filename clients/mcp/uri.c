/* sandbox://ID/path (uri.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "clients/mcp/uri.h"
#include "common/log.h"

#define SCHEME "sandbox://"

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
			    "-._~/!$&'()*+,;=:@";

int
uri_is_id(const char *s)
{
	size_t n = strspn(s, letters);

	return n > 0 && n <= URI_ID_MAX && s[n] == '\0';
}

static int
hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static int
read_path(const char *p, char *out, size_t size)
{
	size_t n = 0;

	for (; *p != '\0'; p++) {
		int c = (unsigned char)*p;

		/* A query or a fragment is no part of a name; in one, both are escaped. */
		if (c == '?' || c == '#')
			return -1;
		if (c == '%') {
			if (hex(p[1]) == -1 || hex(p[2]) == -1)
				return -1;
			c = hex(p[1]) << 4 | hex(p[2]);
			p += 2;
		}
		if (c == '\0' || n + 1 == size)
			return -1;
		out[n++] = (char)c;
	}
	out[n] = '\0';
	return 0;
}

int
uri_read(const char *s, struct uri *uri)
{
	const char *id = s + strlen(SCHEME), *slash;

	if (strncasecmp(s, SCHEME, strlen(SCHEME)) != 0 || (slash = strchr(id, '/')) == NULL ||
	    slash - id > URI_ID_MAX)
		return -1;
	snprintf(uri->id, sizeof(uri->id), "%.*s", (int)(slash - id), id);
	return uri_is_id(uri->id) ? read_path(slash, uri->path, sizeof(uri->path)) : -1;
}

char *
uri_write(const char *id, const char *path)
{
	size_t n = strlen(SCHEME) + strlen(id) + 3 * strlen(path) + 1;
	char *out = malloc(n), *at;

	if (out == NULL)
		fatal("uri");
	for (at = stpcpy(stpcpy(out, SCHEME), id); *path != '\0'; path++) {
		if (strchr(plain, *path) != NULL)
			*at++ = *path;
		else
			at += sprintf(at, "%%%02X", (unsigned char)*path);
	}
	*at = '\0';
	return out;
}
