/* Lines out of a stream of bytes (lines.h). */
#include <stdlib.h>
#include <string.h>

#include "clients/api/lines.h"
#include "common/log.h"

#define ROOM_KEPT ((size_t)64 << 10)

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
	if (n > l->room - l->n) {
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
	for (size_t i = 0; i < n; i++)
		if (p[i] != ' ' && p[i] != '\t' && p[i] != '\r')
			return line(arg, p, n);
	return 0;
}

/* n bytes more of a line, without its end. */
static int
take(struct lines *l, const char *data, size_t n, lines_line *line, void *arg)
{
	if (l->passing)
		return 0;
	if (n <= l->max - l->n) {
		keep(l, data, n);
		return 0;
	}
	l->passing = 1;
	l->n = 0;
	return line(arg, NULL, 0);
}

/* The line in the buffer is whole. One of unusual size does not stay in memory. */
static int
give_kept(struct lines *l, lines_line *line, void *arg)
{
	int e = l->passing ? 0 : give(l->buf, l->n, line, arg);

	l->passing = 0;
	l->n = 0;
	if (l->room > ROOM_KEPT)
		lines_free(l);
	return e;
}

int
lines_feed(struct lines *l, const char *data, size_t n, lines_line *line, void *arg)
{
	const char *end;
	int e;

	while (n > 0 && (end = memchr(data, '\n', n)) != NULL) {
		size_t len = (size_t)(end - data);

		if (l->n == 0 && !l->passing && len <= l->max)
			e = give(data, len, line, arg);
		else if ((e = take(l, data, len, line, arg)) == 0)
			e = give_kept(l, line, arg);
		if (e != 0)
			return e;
		data = end + 1;
		n -= len + 1;
	}
	return n > 0 ? take(l, data, n, line, arg) : 0;
}

int
lines_end(struct lines *l, lines_line *line, void *arg)
{
	return give_kept(l, line, arg);
}
