/* Base64 (base64.h). */
#include <stdint.h>
#include <stdlib.h>

#include "clients/mcp/base64.h"
#include "common/log.h"

char *
base64(const char *p, size_t n)
{
	static const char letters[] =
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const unsigned char *in = (const unsigned char *)p;
	char *out = malloc((n + 2) / 3 * 4 + 1), *at = out;

	if (out == NULL)
		fatal("base64 of %zu bytes", n);
	for (size_t i = 0; i < n; i += 3) {
		uint32_t three = (uint32_t)in[i] << 16 |
				 (i + 1 < n ? (uint32_t)in[i + 1] << 8 : 0) |
				 (i + 2 < n ? in[i + 2] : 0);

		*at++ = letters[three >> 18];
		*at++ = letters[three >> 12 & 63];
		*at++ = i + 1 < n ? letters[three >> 6 & 63] : '=';
		*at++ = i + 2 < n ? letters[three & 63] : '=';
	}
	*at = '\0';
	return out;
}
