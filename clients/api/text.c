/* Text of others made fit to show (text.h). */
#include <string.h>

#include "clients/api/text.h"

#define REPLACEMENT 0xfffd

size_t
text_char(const char *text, size_t n, uint32_t *ch)
{
	const unsigned char *p = (const unsigned char *)text;
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t len = *p < 0x80   ? 1
		     : *p < 0xc2 ? 0
		     : *p < 0xe0 ? 2
		     : *p < 0xf0 ? 3
		     : *p < 0xf5 ? 4
				 : 0;
	uint32_t c;

	if (len == 1) {
		*ch = *p;
		return 1;
	}
	*ch = REPLACEMENT;
	if (len == 0 || len > n)
		return 1;
	c = *p & (0xffU >> (len + 1));
	for (size_t i = 1; i < len; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 1;
		c = c << 6 | (p[i] & 0x3f);
	}
	if (c < least[len] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return 1;
	*ch = c;
	return len;
}

int
text_is_unsafe(uint32_t c)
{
	static const struct {
		uint32_t first, last;
	} unsafe[] = {
	    {0, 0x1f}, {0x7f, 0x9f}, {0xad, 0xad}, /* soft hyphen */
	    {0x61c, 0x61c},                        /* Arabic letter mark */
	    {0x180e, 0x180e},                      /* Mongolian vowel separator */
	    {0x200b, 0x200f},                      /* of no width; marks of direction */
	    {0x2028, 0x202e},   /* ends of lines; embedding and override of direction */
	    {0x2060, 0x206f},   /* joiners, isolates of direction */
	    {0xfeff, 0xfeff},   /* byte order mark */
	    {0xfff9, 0xfffb},   /* interlinear annotations */
	    {0xe0000, 0xe007f}, /* tags */
	};

	for (size_t i = 0; i < sizeof(unsafe) / sizeof(unsafe[0]); i++)
		if (c >= unsafe[i].first && c <= unsafe[i].last)
			return 1;
	return 0;
}

size_t
text_line(const char *p, size_t n, char *out, size_t size)
{
	size_t at = 0, len;
	uint32_t c;

	for (; n > 0; p += len, n -= len) {
		int replaced;

		len = text_char(p, n, &c);
		replaced = text_is_unsafe(c) || (c == REPLACEMENT && len == 1);
		if (at + (replaced ? 1 : len) >= size)
			break;
		if (c == '\n' || c == '\r' || c == '\t') {
			if (at > 0 && out[at - 1] != ' ')
				out[at++] = ' ';
		} else if (replaced) {
			out[at++] = '?';
		} else {
			memcpy(out + at, p, len);
			at += len;
		}
	}
	while (at > 0 && out[at - 1] == ' ')
		at--;
	out[at] = '\0';
	return at;
}
