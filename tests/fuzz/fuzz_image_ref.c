/* Names of images as clients give them. What is taken must be safe in a path and a query, and be
 * taken again when it is put together from its parts. */
// link: common/image_ref.o
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/image_ref.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct image_ref ref, again;
	char text[600];

	if (image_parse((const char *)data, size, &ref) != 0)
		return 0;
	const char *safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:/-";
	if (strspn(ref.name, safe) != strlen(ref.name) ||
	    strspn(ref.tag, safe) != strlen(ref.tag) || strstr(ref.name, "..") != NULL ||
	    strstr(ref.name, "//") != NULL || strchr(ref.tag, '/') != NULL)
		abort();
	int n = snprintf(text, sizeof(text), "%s%c%s", ref.name,
	    strchr(ref.tag, ':') != NULL ? '@' : ':', ref.tag);
	if (image_parse(text, (size_t)n, &again) != 0 || strcmp(again.name, ref.name) != 0 ||
	    strcmp(again.tag, ref.tag) != 0 || strcmp(again.host, ref.host) != 0)
		abort();
	image_allowed("*,python:*,[a-z]*/x", text, &ref);
	return 0;
}
