/* Lines out of bytes (inbox.h). */
#include <stdlib.h>
#include <string.h>

#include "clients/mcp/inbox.h"
#include "common/log.h"

#define ROOM_KEPT ((size_t)64 << 10)

void
inbox_init(struct inbox *in, size_t max)
{
	memset(in, 0, sizeof(*in));
	in->max = max;
}

void
inbox_free(struct inbox *in)
{
	free(in->buf);
	memset(in, 0, sizeof(*in));
}

static void
keep(struct inbox *in, const char *p, size_t n)
{
	if (n > in->room - in->n) {
		in->room = (in->n + n) * 2;
		if ((in->buf = realloc(in->buf, in->room)) == NULL)
			fatal("line of %zu bytes", in->room);
	}
	memcpy(in->buf + in->n, p, n);
	in->n += n;
}

static void
give(const char *p, size_t n, inbox_line *line, void *arg)
{
	for (size_t i = 0; i < n; i++) {
		if (strchr(" \t\r", p[i]) == NULL || p[i] == '\0') {
			line(arg, p, n);
			return;
		}
	}
}

/* The line in the buffer is whole. */
static void
give_kept(struct inbox *in, inbox_line *line, void *arg)
{
	if (!in->passing)
		give(in->buf, in->n, line, arg);
	in->passing = 0;
	in->n = 0;
	if (in->room > ROOM_KEPT) {
		free(in->buf);
		in->buf = NULL;
		in->room = 0;
	}
}

/* n bytes more of a line, without its end. */
static void
take(struct inbox *in, const char *p, size_t n, inbox_line *line, void *arg)
{
	if (in->passing)
		return;
	if (n <= in->max - in->n) {
		keep(in, p, n);
		return;
	}
	line(arg, NULL, 0);
	in->passing = 1;
	in->n = 0;
}

void
inbox_feed(struct inbox *in, const char *p, size_t n, inbox_line *line, void *arg)
{
	const char *end;

	for (; (end = memchr(p, '\n', n)) != NULL; n -= (size_t)(end + 1 - p), p = end + 1) {
		size_t len = (size_t)(end - p);

		if (in->n == 0 && !in->passing && len <= in->max) {
			give(p, len, line, arg);
			continue;
		}
		take(in, p, len, line, arg);
		give_kept(in, line, arg);
	}
	if (n > 0)
		take(in, p, n, line, arg);
}

void
inbox_end(struct inbox *in, inbox_line *line, void *arg)
{
	give_kept(in, line, arg);
}
