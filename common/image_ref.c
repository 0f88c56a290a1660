/* What an image may be called: the grammar of references, the operator's globs, and registries that
 * are hosts nearby. */
#include "common/image_ref.h"

#include <ctype.h>
#include <fnmatch.h>
#include <string.h>

#include "common/items.h"

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGIT "0123456789"

/* One part of a path: runs of [a-z0-9] with one of ".", "_", "__" or dashes between them. */
static int
part_valid(const char *p, size_t n)
{
	size_t i = 0, gap;

	for (;;) {
		size_t run = 0;
		while (i < n && p[i] != '\0' && strchr(LOWER DIGIT, p[i]) != NULL)
			i++, run++;
		if (run == 0)
			return 0;
		if (i == n)
			return 1;
		for (gap = 0; i + gap < n && p[i + gap] == p[i]; gap++)
			;
		if (!(p[i] == '-' || (p[i] == '.' && gap == 1) || (p[i] == '_' && gap <= 2)))
			return 0;
		i += gap;
	}
}

/* A registry: labels of letters, digits and inner dashes, dots between them, perhaps a port. */
static int
host_valid(const char *host)
{
	const char *p = host;

	for (;;) {
		size_t n = strspn(p, LOWER UPPER DIGIT "-");
		if (n == 0 || p[0] == '-' || p[n - 1] == '-')
			return 0;
		p += n;
		if (*p != '.')
			break;
		p++;
	}
	if (*p == ':') {
		size_t n = strspn(p + 1, DIGIT);
		if (n == 0 || n > 5)
			return 0;
		p += 1 + n;
	}
	return *p == '\0';
}

static int
path_valid(const char *path)
{
	for (;;) {
		size_t n = strcspn(path, "/");
		if (!part_valid(path, n))
			return 0;
		if (path[n] == '\0')
			return 1;
		path += n + 1;
	}
}

/* The first part is a registry when it could not be part of a path of the default one. */
static int
name_valid(struct image_ref *ref)
{
	char *slash = strchr(ref->name, '/');

	ref->host[0] = '\0';
	if (slash == NULL)
		return path_valid(ref->name);
	size_t n = (size_t)(slash - ref->name);
	memcpy(ref->host, ref->name, n);
	ref->host[n] = '\0';
	if (strpbrk(ref->host, ".:" UPPER) != NULL || strcmp(ref->host, "localhost") == 0)
		return host_valid(ref->host) && path_valid(slash + 1);
	ref->host[0] = '\0';
	return path_valid(ref->name);
}

int
image_parse(const char *text, size_t len, struct image_ref *ref)
{
	char buf[512];

	if (len == 0 || len >= sizeof(buf) || memchr(text, '\0', len) != NULL)
		return -1;
	memcpy(buf, text, len);
	buf[len] = '\0';
	char *digest = strchr(buf, '@');
	if (digest != NULL) {
		*digest++ = '\0';
		if (strncmp(digest, "sha256:", 7) != 0 || strlen(digest) != 7 + 64 ||
		    strspn(digest + 7, DIGIT "abcdef") != 64)
			return -1;
	}
	char *slash = strrchr(buf, '/');
	char *tag = strchr(slash != NULL ? slash : buf, ':');
	if (tag != NULL) {
		*tag++ = '\0';
		size_t n = strspn(tag, LOWER UPPER DIGIT "_.-");
		if (n == 0 || n > 128 || tag[n] != '\0' || tag[0] == '.' || tag[0] == '-')
			return -1;
	}
	if (strlen(buf) >= sizeof(ref->name))
		return -1;
	strcpy(ref->name, buf);
	strcpy(ref->tag, digest != NULL ? digest : tag != NULL ? tag : "latest");
	return name_valid(ref) ? 0 : -1;
}

/*
 * A registry that may be a service of this host or its neighbours: an address, a name without a
 * domain, a port. The engine would probe it for the caller, so that a wildcard must not cover it.
 */
static int
host_is_near(const char *host)
{
	static const char *const local[] = {"localhost", "localdomain", "local", "internal", "lan"};
	const char *last = strrchr(host, '.');

	if (host[0] == '\0')
		return 0;
	if (last == NULL || strchr(host, ':') != NULL || !isalpha((unsigned char)last[1]))
		return 1;
	for (size_t i = 0; i < sizeof(local) / sizeof(local[0]); i++)
		if (strcasecmp(last + 1, local[i]) == 0)
			return 1;
	return 0;
}

/* A glob that names no registry is about names without one: "python*" is not "python.example/x". */
static int
names_registry(const char *glob, const char *host)
{
	const char *slash = strchr(glob, '/');
	char first[1024];

	if (host[0] == '\0' || strcmp(glob, "*") == 0)
		return 1;
	if (slash == NULL || (size_t)(slash - glob) >= sizeof(first))
		return 0;
	memcpy(first, glob, (size_t)(slash - glob));
	first[slash - glob] = '\0';
	return (strcmp(first, "*") == 0 || strpbrk(first, ".:") != NULL ||
		   strcmp(first, host) == 0) &&
	       fnmatch(first, host, FNM_NOESCAPE) == 0;
}

int
image_allowed(const char *globs, const char *image, const struct image_ref *ref)
{
	const char *item;
	char glob[1024];
	size_t host = strlen(ref->host), n;

	while ((item = items_next(&globs, &n)) != NULL) {
		if (n >= sizeof(glob))
			continue;
		memcpy(glob, item, n);
		glob[n] = '\0';
		int near = host_is_near(ref->host) &&
			   !(strncmp(glob, ref->host, host) == 0 && glob[host] == '/');
		if (!near && names_registry(glob, ref->host) &&
		    fnmatch(glob, image, FNM_NOESCAPE) == 0)
			return 1;
	}
	return 0;
}
