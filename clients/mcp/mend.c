/* Halves of characters in JSON (mend.h). */
#include <string.h>

#include "clients/mcp/mend.h"

#define ESCAPE ((size_t)6) /* "\u1234" */

/* The number of the escape at p, or -1 if there is none. */
static long
escaped(const char *p, size_t n)
{
	static const char digits[] = "00112233445566778899aAbBcCdDeEfF";
	long v = 0;

	if (n < ESCAPE || p[0] != '\\' || p[1] != 'u')
		return -1;
	for (size_t i = 2; i < ESCAPE; i++) {
		const char *d = p[i] != '\0' ? strchr(digits, p[i]) : NULL;

		if (d == NULL)
			return -1;
		v = v << 4 | (d - digits) / 2;
	}
	return v;
}

size_t
mend_halves(char *json, size_t n)
{
	size_t found = 0, at = 0, next;

	for (; at < n; at += next) {
		long v = escaped(json + at, n - at);

		next = v != -1 ? ESCAPE : json[at] == '\\' ? 2 : 1;
		if (v < 0xd800 || v > 0xdfff)
			continue;
		if (v < 0xdc00) {
			long low = escaped(json + at + ESCAPE, n - at - ESCAPE);

			if (low >= 0xdc00 && low <= 0xdfff) {
				next = 2 * ESCAPE;
				continue;
			}
		}
		memcpy(json + at + 2, "fffd", 4);
		found++;
	}
	return found;
}
