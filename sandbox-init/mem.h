/* Memory for PID 1. There is nobody to report to when it runs out, so these end the program, and
 * with it the sandbox. */
#ifndef SANDBOX_INIT_MEM_H
#define SANDBOX_INIT_MEM_H

#include <stddef.h>

void *mem_new(size_t size); /* zeroed; free() it */
void *mem_resize(void *, size_t size);

/* Bytes that wait: those in p[start..end). */
struct mem_queue {
	unsigned char *p;
	size_t start, end, cap;
};

/* Room for n more bytes behind end. */
unsigned char *mem_queue_reserve(struct mem_queue *, size_t n);
void mem_queue_free(struct mem_queue *);

#endif
