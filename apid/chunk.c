/* Strict decoder of the chunked transfer coding (chunk.h). */
#include <string.h>

#include "apid/chunk.h"

static int
hex_digit(char ch)
{
	if (ch >= '0' && ch <= '9')
		return ch - '0';
	if (ch >= 'a' && ch <= 'f')
		return ch - 'a' + 10;
	if (ch >= 'A' && ch <= 'F')
		return ch - 'A' + 10;
	return -1;
}

static int
has_control(const char *p, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (((unsigned char)p[i] < 32 && p[i] != '\t') || p[i] == 127)
			return 1;
	}
	return 0;
}

/* 1*11HEXDIG, then nothing or an extension, which is ignored. */
static enum chunk_step
size_line(struct chunk *c, const char *p, size_t n)
{
	size_t i;

	c->left = 0;
	for (i = 0; i < n && hex_digit(p[i]) >= 0; i++) {
		if (i == 11)
			return STEP_BAD;
		c->left = c->left * 16 + (uint64_t)hex_digit(p[i]);
	}
	if (i == 0 || (i < n && p[i] != ';') || has_control(p + i, n - i))
		return STEP_BAD;
	c->state = c->left > 0 ? CHUNK_DATA : CHUNK_TRAILER;
	return STEP_LINE;
}

static enum chunk_step
trailer_line(struct chunk *c, const char *p, size_t n)
{
	if (n == 0) {
		c->state = CHUNK_OVER;
		return STEP_OVER;
	}
	c->trailer += (uint32_t)n;
	if (c->trailer > CHUNK_TRAILER_MAX || has_control(p, n))
		return STEP_BAD;
	return STEP_LINE;
}

enum chunk_step
chunk_step(struct chunk *c, const char *p, size_t n, size_t *used)
{
	const char *eol;
	size_t len;

	*used = 0;
	if (c->state == CHUNK_OVER)
		return STEP_OVER;
	if (c->state == CHUNK_DATA) {
		*used = n < c->left ? n : (size_t)c->left;
		c->left -= *used;
		if (c->left == 0)
			c->state = CHUNK_DATA_END;
		return *used > 0 ? STEP_DATA : STEP_MORE;
	}
	if (c->state == CHUNK_DATA_END) {
		if ((n > 0 && p[0] != '\r') || (n > 1 && p[1] != '\n'))
			return STEP_BAD;
		if (n < 2)
			return STEP_MORE;
		*used = 2;
		c->state = CHUNK_SIZE;
		return STEP_LINE;
	}
	if (n > CHUNK_LINE_MAX + 2)
		n = CHUNK_LINE_MAX + 2;
	if ((eol = memmem(p, n, "\r\n", 2)) == NULL)
		return n > CHUNK_LINE_MAX + 1 ? STEP_BAD : STEP_MORE;
	len = (size_t)(eol - p);
	*used = len + 2;
	return c->state == CHUNK_SIZE ? size_line(c, p, len) : trailer_line(c, p, len);
}
