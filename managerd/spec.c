/* Keeps specifications of sandboxes: copies, bounds, labels. */
#include <bsd/stdlib.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "managerd/spec.h"
#include "proto/apid_managerd.h"

void
strings_add(struct strings *s, const char *text, size_t len)
{
	char *p;

	if ((p = realloc(s->bytes, s->len + len + 1)) == NULL)
		fatal("strings");
	memcpy(p + s->len, text, len);
	p[s->len + len] = '\0';
	s->bytes = p;
	s->len += len + 1;
	s->count++;
}

void
strings_clear(struct strings *s)
{
	free(s->bytes);
	memset(s, 0, sizeof(*s));
}

static void
strings_copy(struct strings *to, const struct strings *from)
{
	memset(to, 0, sizeof(*to));
	if (from->len == 0)
		return;
	if ((to->bytes = malloc(from->len)) == NULL)
		fatal("strings");
	memcpy(to->bytes, from->bytes, from->len);
	to->len = from->len;
	to->count = from->count;
}

void
spec_copy(struct spec *to, const struct spec *from)
{
	*to = *from;
	if (from->image != NULL && (to->image = strdup(from->image)) == NULL)
		fatal("spec");
	if (from->egress != NULL && (to->egress = strdup(from->egress)) == NULL)
		fatal("spec");
	strings_copy(&to->env, &from->env);
	strings_copy(&to->labels, &from->labels);
}

void
spec_clear(struct spec *spec)
{
	free(spec->image);
	free(spec->egress);
	strings_clear(&spec->env);
	strings_clear(&spec->labels);
	memset(spec, 0, sizeof(*spec));
}

const char *
strings_end(const struct strings *s)
{
	return s->len == 0 ? s->bytes : s->bytes + s->len;
}

const char *
spec_label(const struct spec *spec, const char *name)
{
	const char *p = spec->labels.bytes, *end = strings_end(&spec->labels);
	const char *value;

	for (; p < end; p = value + strlen(value) + 1) {
		value = p + strlen(p) + 1;
		if (strcmp(p, name) == 0)
			return value;
	}
	return NULL;
}

int
spec_env_check(const struct strings *env)
{
	const char *p = env->bytes, *end = strings_end(env);
	const char *eq;

	if (env->count > ENV_MAX || env->len > ENV_BYTES_MAX + ENV_MAX * 2)
		return -1;
	for (; p < end; p += strlen(p) + 1) {
		eq = strchr(p, '=');
		if (eq == NULL || eq == p)
			return -1;
	}
	return 0;
}

int
spec_labels_check(const struct strings *labels)
{
	const char *p = labels->bytes, *end = strings_end(labels);
	size_t n = 0, len;

	if (labels->count % 2 != 0 || labels->count > LABELS_MAX * 2)
		return -1;
	for (; p < end; p += len + 1, n++) {
		len = strlen(p);
		if (n % 2 == 0 && (len == 0 || len > LABEL_NAME_MAX))
			return -1;
		if (n % 2 == 1 && len > LABEL_VALUE_MAX)
			return -1;
	}
	return 0;
}
