/* Memory for PID 1: allocation that does not fail, and byte queues. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-init/mem.h"

void *
mem_new(size_t size)
{
	void *p = calloc(1, size ? size : 1);

	if (p == NULL)
		_exit(70);
	return p;
}

void *
mem_resize(void *old, size_t size)
{
	void *p = realloc(old, size ? size : 1);

	if (p == NULL)
		_exit(70);
	return p;
}

unsigned char *
mem_queue_reserve(struct mem_queue *q, size_t n)
{
	size_t cap = q->cap ? q->cap : 4096;

	if (q->start == q->end)
		q->start = q->end = 0;
	if (q->cap - q->end >= n)
		return q->p + q->end;
	if (q->start > 0) {
		memmove(q->p, q->p + q->start, q->end - q->start);
		q->end -= q->start;
		q->start = 0;
	}
	while (cap - q->end < n)
		cap *= 2;
	if (cap != q->cap)
		q->p = mem_resize(q->p, cap);
	q->cap = cap;
	return q->p + q->end;
}

void
mem_queue_free(struct mem_queue *q)
{
	free(q->p);
	memset(q, 0, sizeof(*q));
}
