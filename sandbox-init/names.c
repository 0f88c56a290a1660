/* Checks names and link targets of archive entries, by text alone. */
#include <limits.h>
#include <string.h>

#include "sandbox-init/names.h"

const char *
names_clean(const char *name, char *out, size_t size)
{
	size_t n, len = 0;

	if (name[0] == '/')
		return "absolute names are refused";
	for (; *(name += strspn(name, "/")) != '\0'; name += n) {
		n = strcspn(name, "/");
		if (n == 1 && name[0] == '.')
			continue;
		if (n == 2 && name[0] == '.' && name[1] == '.')
			return "names with .. are refused";
		if (n > NAME_MAX || len + n + 2 > size)
			return "name or path too long";
		if (len > 0)
			out[len++] = '/';
		memcpy(out + len, name, n);
		len += n;
	}
	out[len] = '\0';
	return NULL;
}

static int
count_folders(const char *name)
{
	int n = 0;

	for (; *name != '\0'; name++)
		n += *name == '/';
	return n;
}

int
names_leads_out(int depth, const char *name, const char *target)
{
	int at = (depth > 0 ? depth : 0) + count_folders(name);
	size_t n;

	if (target[0] == '/') {
		if (depth < 0 || strncmp(target, "/workspace", 10) != 0 ||
		    (target[10] != '/' && target[10] != '\0'))
			return 1;
		target += 10;
		at = 0;
	}
	for (; *(target += strspn(target, "/")) != '\0'; target += n) {
		n = strcspn(target, "/");
		if (n == 1 && target[0] == '.')
			continue;
		at += n == 2 && target[0] == '.' && target[1] == '.' ? -1 : 1;
		if (at < 0)
			return 1;
	}
	return 0;
}
