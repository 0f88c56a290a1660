/*
 * Frames on the guest stream: {magic, type, flags, channel, len, crc32}, 16 bytes little-endian,
 * then len bytes. Pure functions; the types are in proto/guest.h. Used on both ends, one of which
 * is hostile.
 */
#ifndef COMMON_FRAME_H
#define COMMON_FRAME_H

#include <stddef.h>
#include <stdint.h>

#define FRAME_MAGIC 0x31665341u /* "ASf1" */
#define FRAME_HEADER 16
#define FRAME_DATA_MAX 65536 /* bytes of payload */

struct frame {
	uint8_t type;
	uint8_t flags; /* 0 */
	uint16_t channel;
	uint32_t len;
	const uint8_t *data;
};

/*
 * A frame at the start of p[0..n): its whole length; 0 when more bytes are needed; -1 when the
 * magic, the length or the checksum is wrong. The checksum covers the first 12 bytes of the header
 * and the data.
 */
int64_t frame_parse(const uint8_t *p, size_t n, struct frame *f);
/* Writes the header for data[0..len). */
void frame_header(
    uint8_t out[FRAME_HEADER], uint8_t type, uint16_t channel, const void *data, uint32_t len);
/*
 * The offset of the next byte behind p[0] that can begin a frame (or n): to find the stream again
 * after frame_parse() said -1. At least 1 unless n is 0, so a loop of both always moves on.
 */
size_t frame_resync(const uint8_t *p, size_t n);

#endif
