/* Takes the engine's stdout/stderr framing off the bytes of an attached container, in place. */
#include <string.h>

#include "sessiond/stdcopy.h"

static int
stdcopy_header(struct stdcopy *c)
{
	const uint8_t *h = c->header;

	if (h[0] != STDCOPY_STDOUT && h[0] != STDCOPY_STDERR)
		return -1;
	if (h[1] != 0 || h[2] != 0 || h[3] != 0)
		return -1;
	c->left = (uint32_t)h[4] << 24 | (uint32_t)h[5] << 16 | (uint32_t)h[6] << 8 | h[7];
	return c->left > STDCOPY_LEN_MAX ? -1 : 0;
}

ssize_t
stdcopy_unwrap(struct stdcopy *c, uint8_t *p, size_t n)
{
	size_t from = 0, to = 0, len;

	while (from < n) {
		if (c->left == 0) {
			len = STDCOPY_HEADER - c->have;
			if (len > n - from)
				len = n - from;
			memcpy(c->header + c->have, p + from, len);
			c->have += (uint8_t)len;
			from += len;
			if (c->have < STDCOPY_HEADER)
				break;
			c->have = 0;
			if (stdcopy_header(c) == -1)
				return -1;
			continue;
		}
		len = c->left < n - from ? c->left : n - from;
		if (c->header[0] == STDCOPY_STDOUT) {
			memmove(p + to, p + from, len);
			to += len;
		}
		from += len;
		c->left -= (uint32_t)len;
	}
	return (ssize_t)to;
}
