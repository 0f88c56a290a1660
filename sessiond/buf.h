/* A queue of bytes in one piece of memory that grows on demand. Zeroed is empty. Out of memory is
 * fatal. */
#ifndef SESSIOND_BUF_H
#define SESSIOND_BUF_H

#include <stddef.h>
#include <stdint.h>

struct buf {
	uint8_t *p;
	size_t start;
	size_t end;
	size_t cap;
};

static inline size_t
buf_len(const struct buf *b)
{
	return b->end - b->start;
}

static inline uint8_t *
buf_data(const struct buf *b)
{
	return b->p == NULL ? NULL : b->p + b->start;
}

/* Makes room for n bytes behind the last one and returns the place; buf_wrote() then says how many
 * came. */
uint8_t *buf_room(struct buf *, size_t n);
void buf_wrote(struct buf *, size_t n);
void buf_add(struct buf *, const void *, size_t n);
/* Drops n bytes at the front. */
void buf_drop(struct buf *, size_t n);
void buf_free(struct buf *);

#endif
