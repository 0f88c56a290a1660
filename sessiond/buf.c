/* A queue of bytes in one piece of memory that grows on demand. */
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "sessiond/buf.h"

#define BUF_MIN 1024

uint8_t *
buf_room(struct buf *b, size_t n)
{
	size_t len = buf_len(b), cap;

	if (n > SIZE_MAX / 4 - len)
		fatalx("buffer of %zu bytes", n);
	if (b->cap - b->end >= n)
		return b->p + b->end;
	/* Moving pays only when little is left: else a long queue would be moved again and again.
	 */
	if (b->cap - len >= n && b->start >= len) {
		memmove(b->p, b->p + b->start, len);
	} else {
		cap = b->cap == 0 ? BUF_MIN : b->cap * 2;
		while (cap < len + n)
			cap *= 2;
		uint8_t *p = malloc(cap);

		if (p == NULL)
			fatal("buffer of %zu bytes", cap);
		if (len > 0)
			memcpy(p, b->p + b->start, len);
		free(b->p);
		b->p = p;
		b->cap = cap;
	}
	b->start = 0;
	b->end = len;
	return b->p + b->end;
}

void
buf_wrote(struct buf *b, size_t n)
{
	if (n > b->cap - b->end)
		fatalx("buffer overrun");
	b->end += n;
}

void
buf_add(struct buf *b, const void *data, size_t n)
{
	if (n == 0)
		return;
	memcpy(buf_room(b, n), data, n);
	b->end += n;
}

void
buf_drop(struct buf *b, size_t n)
{
	if (n > buf_len(b))
		fatalx("buffer underrun");
	b->start += n;
	if (b->start == b->end)
		b->start = b->end = 0;
}

void
buf_free(struct buf *b)
{
	free(b->p);
	memset(b, 0, sizeof(*b));
}
