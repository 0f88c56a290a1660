/* The head of the answer to an attach. A pure function, since what follows it is not ours to read.
 */
#include "dockerd-proxy/head.h"

#include <string.h>

int
head_parse(const char *p, size_t n, int *status, size_t *len)
{
	const char *end = memmem(p, n, "\r\n\r\n", 4);

	if (memcmp(p, "HTTP/1.1 ", n < 9 ? n : 9) != 0)
		return -1;
	if (end == NULL)
		return n < HEAD_MAX ? 0 : -1;
	*status = 0;
	for (int i = 9; i < 12; i++) {
		if (p[i] < '0' || p[i] > '9')
			return -1;
		*status = *status * 10 + p[i] - '0';
	}
	*len = (size_t)(end - p) + 4;
	return 1;
}
