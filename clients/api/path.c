/* Paths of the API with names of others in them (api.h). */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clients/api/api.h"
#include "common/log.h"

struct text {
	char *p;
	size_t n, room;
};

static void
put(struct text *t, const char *p, size_t n)
{
	if (t->n + n + 1 > t->room) {
		t->room = (t->n + n + 1) * 2;
		if ((t->p = realloc(t->p, t->room)) == NULL)
			fatal("path");
	}
	memcpy(t->p + t->n, p, n);
	t->n += n;
	t->p[t->n] = '\0';
}

static void
put_escaped(struct text *t, const char *s)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				    "0123456789-._~";
	char hex[4];

	for (; *s != '\0'; s++) {
		if (strchr(plain, *s) != NULL) {
			put(t, s, 1);
		} else {
			snprintf(hex, sizeof(hex), "%%%02X", (unsigned char)*s);
			put(t, hex, 3);
		}
	}
}

char *
api_path(const char *fmt, ...)
{
	struct text t = {0};
	char number[32];
	va_list ap;

	put(&t, "", 0);
	va_start(ap, fmt);
	for (; *fmt != '\0'; fmt++) {
		if (*fmt != '%') {
			put(&t, fmt, 1);
		} else if (fmt[1] == 's') {
			put_escaped(&t, va_arg(ap, const char *));
			fmt++;
		} else if (fmt[1] == 'd') {
			snprintf(number, sizeof(number), "%d", va_arg(ap, int));
			put(&t, number, strlen(number));
			fmt++;
		} else if (strncmp(fmt, "%lld", 4) == 0) {
			snprintf(number, sizeof(number), "%lld", va_arg(ap, long long));
			put(&t, number, strlen(number));
			fmt += 3;
		} else if (fmt[1] == '%') {
			put(&t, "%", 1);
			fmt++;
		} else {
			fatalx("api_path: %s", fmt);
		}
	}
	va_end(ap);
	return t.p;
}
