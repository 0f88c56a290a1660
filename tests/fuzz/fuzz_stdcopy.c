// link: sessiond/stdcopy.o
/* The engine's framing: however the bytes are cut, the same comes out, and never more than went in.
 */
#include <stdlib.h>
#include <string.h>

#include "sessiond/stdcopy.h"

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct stdcopy whole = {0}, cut = {0};
	uint8_t *a, *b;
	ssize_t len, got = 0, part = 0;
	size_t at, step;

	if (n < 2)
		return 0;
	step = (size_t)p[0] + 1;
	p++;
	n--;
	if ((a = malloc(n)) == NULL || (b = malloc(n)) == NULL)
		abort();
	memcpy(a, p, n);
	len = stdcopy_unwrap(&whole, a, n);
	if (len > (ssize_t)n)
		abort();
	for (at = 0; at < n && part != -1; at += step) {
		if (step > n - at)
			step = n - at;
		memcpy(b + got, p + at, step);
		if ((part = stdcopy_unwrap(&cut, b + got, step)) != -1)
			got += part;
	}
	if ((len == -1) != (part == -1) ||
	    (len != -1 && (len != got || memcmp(a, b, (size_t)len) != 0)))
		abort();
	free(a);
	free(b);
	return 0;
}
