/* Frames on the guest stream and their checksum; see frame.h. Nothing but libc, since sandbox-init
 * links it. */
#include "common/frame.h"

#include <string.h>

#define CRC_POLYNOMIAL 0xedb88320u
#define SLICES 16

/* crc_table[k][b]: the checksum's change by byte b that k more bytes follow. */
static uint32_t crc_table[SLICES][256];

static void
crc_init(void)
{
	uint32_t i, k, c;

	for (i = 0; i < 256; i++) {
		c = i;
		for (k = 0; k < 8; k++)
			c = c >> 1 ^ (c & 1 ? CRC_POLYNOMIAL : 0);
		crc_table[0][i] = c;
	}
	for (i = 0; i < 256; i++)
		for (k = 1; k < SLICES; k++) {
			c = crc_table[k - 1][i];
			crc_table[k][i] = c >> 8 ^ crc_table[0][c & 255];
		}
}

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

/* Sixteen bytes a round: a byte at a time would be the slowest step of a stream. */
uint32_t
crc32_update(uint32_t crc, const void *data, size_t len)
{
	const uint8_t *p = data;
	uint32_t a, b, c, d;

	if (crc_table[0][1] == 0)
		crc_init();
	crc = ~crc;
	for (; len >= SLICES; p += SLICES, len -= SLICES) {
		a = get32(p) ^ crc;
		b = get32(p + 4);
		c = get32(p + 8);
		d = get32(p + 12);
		crc = crc_table[15][a & 255] ^ crc_table[14][a >> 8 & 255] ^
		      crc_table[13][a >> 16 & 255] ^ crc_table[12][a >> 24] ^
		      crc_table[11][b & 255] ^ crc_table[10][b >> 8 & 255] ^
		      crc_table[9][b >> 16 & 255] ^ crc_table[8][b >> 24] ^ crc_table[7][c & 255] ^
		      crc_table[6][c >> 8 & 255] ^ crc_table[5][c >> 16 & 255] ^
		      crc_table[4][c >> 24] ^ crc_table[3][d & 255] ^ crc_table[2][d >> 8 & 255] ^
		      crc_table[1][d >> 16 & 255] ^ crc_table[0][d >> 24];
	}
	for (; len > 0; p++, len--)
		crc = crc >> 8 ^ crc_table[0][(crc ^ *p) & 255];
	return ~crc;
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
