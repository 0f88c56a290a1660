/* Lines out of a stream of bytes (lines.h). */
#include <stdlib.h>
#include <string.h>

#include "clients/api/lines.h"
#include "common/log.h"

void
lines_init(struct lines *l, size_t max)
{
	memset(l, 0, sizeof(*l));
	l->max = max;
}

void
lines_free(struct lines *l)
{
	free(l->buf);
	lines_init(l, l->max);
}

static void
keep(struct lines *l, const char *data, size_t n)
{
	if (n == 0)
		return;
	if (l->n + n > l->room) {
		l->room = (l->n + n) * 2;
		if ((l->buf = realloc(l->buf, l->room)) == NULL)
			fatal("line of %zu bytes", l->room);
	}
	memcpy(l->buf + l->n, data, n);
	l->n += n;
}

static int
give(const char *p, size_t n, lines_line *line, void *arg)
{
	if (n > 0 && p[n - 1] == '\r')
		n--;
	return n > 0 ? line(arg, p, n) : 0;
}

int
lines_feed(struct lines *l, const char *data, size_t n, lines_line *line, void *arg)
{
	const char *end;
	int e;

	while (n > 0 && (end = memchr(data, '\n', n)) != NULL) {
		size_t len = (size_t)(end - data);

		if (len > l->max || l->n > l->max - len)
			return LINES_TOO_LONG;
		if (l->n == 0) {
			e = give(data, len, line, arg);
		} else {
			keep(l, data, len);
			e = give(l->buf, l->n, line, arg);
			l->n = 0;
		}
		if (e != 0)
			return e;
		data = end + 1;
		n -= len + 1;
	}
	if (n > l->max || l->n > l->max - n)
		return LINES_TOO_LONG;
	keep(l, data, n);
	return 0;
}

int
lines_end(struct lines *l, lines_line *line, void *arg)
{
	size_t n = l->n;

	l->n = 0;
	return n > 0 ? give(l->buf, n, line, arg) : 0;
}
