/* The key file: a whole one, and what its lines must not say together (keys_file.h). One line is in
 * keys_line.c. */
#include "common/keys_file.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"

#define WHY_MAX 256

/* Of a line that is refused. */
struct refusal {
	char *why;
	size_t size;
};

static int
refuse(struct refusal, unsigned line, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static int
refuse(struct refusal to, unsigned line, const char *fmt, ...)
{
	char text[WHY_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	snprintf(to.why, to.size, "line %u: %s", line, text);
	return -1;
}

static int
check_quotas(const struct keys_key *k, const struct keys_key *before, struct refusal to)
{
	char here[KEYS_QUOTA_TEXT], there[KEYS_QUOTA_TEXT];

	if (strcmp(k->tenant, before->tenant) != 0)
		return 0;
	for (int i = 0; i < KEYS_QUOTAS; i++)
		if (k->quota[i] != KEYS_NO_QUOTA && before->quota[i] != KEYS_NO_QUOTA &&
		    k->quota[i] != before->quota[i])
			return refuse(to, k->line, "tenant %s has %s %s here and %s in line %u",
			    k->tenant, keys_quota_name(i), keys_quota_text(here, i, k->quota[i]),
			    keys_quota_text(there, i, before->quota[i]), before->line);
	return 0;
}

/* A line beside one that stands before it. */
static int
check_pair(const struct keys_key *k, const struct keys_key *before, struct refusal to)
{
	if (strcmp(k->name, before->name) == 0)
		return refuse(
		    to, k->line, "the name %s stands in line %u already", k->name, before->line);
	if (k->has_digest && before->has_digest && memcmp(k->digest, before->digest, 32) == 0)
		return refuse(to, k->line, "the digest of %s is that of %s in line %u", k->name,
		    before->name, before->line);
	if (*k->certificate != '\0' && strcmp(k->certificate, before->certificate) == 0)
		return refuse(to, k->line, "the certificate of %s is that of %s in line %u",
		    k->name, before->name, before->line);
	return check_quotas(k, before, to);
}

static struct keys_key *
add(struct keys_file *file)
{
	struct keys_key *v;

	if ((file->count & (file->count - 1)) == 0) { /* full: it holds powers of two */
		v = reallocarray(file->keys, file->count == 0 ? 1 : file->count * 2, sizeof(*v));
		if (v == NULL)
			fatal("keys");
		file->keys = v;
	}
	return &file->keys[file->count++];
}

static int
take_line(struct keys_file *file, const char *p, size_t n, unsigned line, struct refusal to)
{
	char fault[WHY_MAX];
	struct keys_key *k;

	if (file->count == KEYS_MAX)
		return refuse(to, line, "a file has at most %d keys", KEYS_MAX);
	k = add(file);
	if (keys_line_parse(p, n, k, fault, sizeof(fault)) == -1)
		return refuse(to, line, "%s", fault);
	k->line = line;
	for (size_t i = 0; i + 1 < file->count; i++)
		if (check_pair(k, &file->keys[i], to) == -1)
			return -1;
	return 0;
}

int
keys_file_parse(const char *text, size_t n, struct keys_file *file, char *why, size_t size)
{
	const char *p = text, *end = text + n, *stop;
	struct refusal to = {why, size};
	unsigned line = 0;

	memset(file, 0, sizeof(*file));
	if (n > KEYS_FILE_MAX) {
		snprintf(why, size, "is larger than %zu bytes", KEYS_FILE_MAX);
		return -1;
	}
	for (; p < end; p = stop + 1) {
		if ((stop = memchr(p, '\n', (size_t)(end - p))) == NULL)
			stop = end;
		line++;
		if (keys_line_empty(p, (size_t)(stop - p)))
			continue;
		if (take_line(file, p, (size_t)(stop - p), line, to) == -1) {
			keys_file_free(file);
			return -1;
		}
	}
	return 0;
}

void
keys_file_free(struct keys_file *file)
{
	free(file->keys);
	memset(file, 0, sizeof(*file));
}
