// link: apid/chunk.o
/* The chunked coding: however the bytes arrive, the same body comes out, or the same refusal. */
#include <stdlib.h>
#include <string.h>

#include "apid/chunk.h"

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

struct body {
	char *p;
	size_t n;
	enum chunk_step end;
	size_t used;
};

/* Shows the decoder as much as has come: step bytes more each time it wants more. */
static void
decode(const char *p, size_t n, size_t step, struct body *b)
{
	struct chunk c = {0};
	size_t at = 0, have = step < n ? step : n, used;
	char *copy;

	b->n = 0;
	for (;;) {
		if ((copy = malloc(have - at + 1)) == NULL)
			abort();
		memcpy(copy, p + at, have - at);
		b->end = chunk_step(&c, copy, have - at, &used);
		if (used > have - at)
			abort();
		if (b->end == STEP_DATA) {
			memcpy(b->p + b->n, copy, used);
			b->n += used;
		}
		free(copy);
		at += used;
		b->used = at;
		if (b->end == STEP_OVER || b->end == STEP_BAD)
			return;
		if (b->end == STEP_MORE) {
			if (have == n)
				return;
			have = n - have < step ? n : have + step;
		} else if (used == 0) {
			abort(); /* it would go on for ever */
		}
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct body whole, cut;
	size_t step;

	if (n < 1)
		return 0;
	step = (size_t)data[0] + 1;
	if ((whole.p = malloc(n)) == NULL || (cut.p = malloc(n)) == NULL)
		abort();
	decode((const char *)data + 1, n - 1, n, &whole);
	decode((const char *)data + 1, n - 1, step, &cut);
	if (whole.n != cut.n || memcmp(whole.p, cut.p, whole.n) != 0)
		abort();
	if (whole.end != cut.end || (whole.end == STEP_OVER && whole.used != cut.used))
		abort();
	free(whole.p);
	free(cut.p);
	return 0;
}
