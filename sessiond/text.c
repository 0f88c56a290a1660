/* Texts that come from inside a sandbox: made fit for a log line and a JSON string. */
#include <stdint.h>
#include <string.h>

#include "sessiond/text.h"

/* Length of the well-formed UTF-8 sequence at p[0..n) (no surrogates, no overlong forms); 0: not
 * one. */
static size_t
text_sequence(const uint8_t *p, size_t n)
{
	uint8_t lo = 0x80, hi = 0xbf;
	size_t len, i;

	if (p[0] < 0x80)
		return p[0] >= 0x20 && p[0] != 0x7f;
	if (p[0] >= 0xc2 && p[0] <= 0xdf)
		len = 2;
	else if (p[0] >= 0xe0 && p[0] <= 0xef)
		len = 3;
	else if (p[0] >= 0xf0 && p[0] <= 0xf4)
		len = 4;
	else
		return 0;
	if (p[0] == 0xe0)
		lo = 0xa0;
	else if (p[0] == 0xed)
		hi = 0x9f;
	else if (p[0] == 0xf0)
		lo = 0x90;
	else if (p[0] == 0xf4)
		hi = 0x8f;
	else if (p[0] == 0xc2)
		lo = 0xa0; /* not the C1 control characters */
	if (len > n || p[1] < lo || p[1] > hi)
		return 0;
	for (i = 2; i < len; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	}
	return len;
}

void
text_clean(const char *in, size_t n, char *out, size_t size)
{
	const uint8_t *p = (const uint8_t *)in;
	size_t len, at = 0;

	while (n > 0) {
		len = text_sequence(p, n);
		if (at + (len == 0 ? 1 : len) >= size)
			break;
		if (len == 0) {
			out[at++] = '?';
			len = 1;
		} else {
			memcpy(out + at, p, len);
			at += len;
		}
		p += len;
		n -= len;
	}
	out[at] = '\0';
}
