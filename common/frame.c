/* Frames on the guest stream; see frame.h. Nothing but libc, since sandbox-init links it. */
#include "common/frame.h"

#include <string.h>

#include "common/crc32.h"

static uint32_t
get32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void
put32(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)v;
	p[1] = (uint8_t)(v >> 8);
	p[2] = (uint8_t)(v >> 16);
	p[3] = (uint8_t)(v >> 24);
}

int64_t
frame_parse(const uint8_t *p, size_t n, struct frame *f)
{
	uint32_t crc;

	/* Said as early as possible: garbage must not make the reader wait for more of it. */
	if (n >= 4 && get32(p) != FRAME_MAGIC)
		return -1;
	if (n < FRAME_HEADER)
		return 0;
	f->len = get32(p + 8);
	if (f->len > FRAME_DATA_MAX)
		return -1;
	if (n - FRAME_HEADER < f->len)
		return 0;
	f->type = p[4];
	f->flags = p[5];
	f->channel = (uint16_t)(p[6] | p[7] << 8);
	f->data = p + FRAME_HEADER;
	crc = crc32_update(crc32_update(0, p, 12), f->data, f->len);
	if (crc != get32(p + 12))
		return -1;
	return FRAME_HEADER + (int64_t)f->len;
}

void
frame_header(
    uint8_t out[FRAME_HEADER], uint8_t type, uint16_t channel, const void *data, uint32_t len)
{
	put32(out, FRAME_MAGIC);
	out[4] = type;
	out[5] = 0;
	out[6] = (uint8_t)channel;
	out[7] = (uint8_t)(channel >> 8);
	put32(out + 8, len);
	put32(out + 12, crc32_update(crc32_update(0, out, 12), data, len));
}

/* Offset 0 has just failed as a frame, so the search begins at 1; the end may hold the magic's
 * first bytes. */
size_t
frame_resync(const uint8_t *p, size_t n)
{
	uint8_t magic[4];
	const uint8_t *found;
	size_t at, have;

	put32(magic, FRAME_MAGIC);
	for (at = 1; at < n; at++) {
		found = memchr(p + at, magic[0], n - at);
		if (found == NULL)
			return n;
		at = (size_t)(found - p);
		have = n - at < sizeof(magic) ? n - at : sizeof(magic);
		if (memcmp(found, magic, have) == 0)
			return at;
	}
	return n;
}
