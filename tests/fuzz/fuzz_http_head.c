// The head of the answer to an attach, whole and in pieces.
// link: dockerd-proxy/head.o
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "dockerd-proxy/head.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *p = malloc(size); /* so that a read behind its end is seen */
	int status = 0, whole;
	size_t len = 0;

	if (p == NULL)
		return 0;
	memcpy(p, data, size);
	whole = head_parse(p, size, &status, &len);
	if (whole == 1 &&
	    (len > size || status < 0 || status > 999 || memcmp(p + len - 4, "\r\n\r\n", 4) != 0))
		abort();
	/* What is a head stays one whatever follows, and no beginning of it is refused. */
	for (size_t n = 0; whole == 1 && n < len; n += 1 + n / 8)
		if (head_parse(p, n, &status, &len) != 0)
			abort();
	free(p);
	return 0;
}
