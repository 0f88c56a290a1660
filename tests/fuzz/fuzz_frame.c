/*
 * Frames and records, as the two ends of a stream read them: whatever comes, a reader moves on or
 * waits, never reads beyond the end, and a frame that it takes is one that the writer would have
 * written. The checksum is the same with and without the processor's help.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/crc32.h"
#include "common/frame.h"
#include "common/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

static void
read_frames(const uint8_t *p, size_t n)
{
	uint8_t header[FRAME_HEADER];
	struct frame f;
	size_t at = 0, step;
	int64_t r;

	while (at < n) {
		r = frame_parse(p + at, n - at, &f);
		if (r == 0)
			return;
		if (r == -1) {
			step = frame_resync(p + at, n - at);
			assert(step >= 1 && step <= n - at);
			at += step;
			continue;
		}
		assert(f.len <= FRAME_DATA_MAX && r == FRAME_HEADER + (int64_t)f.len);
		assert((size_t)r <= n - at && f.data == p + at + FRAME_HEADER);
		frame_header(header, f.type, f.channel, f.data, f.len);
		assert(f.flags != 0 || memcmp(header, p + at, FRAME_HEADER) == 0);
		at += (size_t)r;
	}
}

static void
read_records(const uint8_t *p, size_t n)
{
	const uint8_t *data;
	size_t at = 0, len;
	uint8_t type;
	int64_t r;

	while ((r = record_parse(p + at, n - at, 4096, &type, &data, &len)) > 0) {
		assert(len <= 4096 && data == p + at + RECORD_HEADER && data + len <= p + n);
		at += (size_t)r;
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	assert(crc32_update(0, p, n) == crc32_by_table(0, p, n));
	read_frames(p, n);
	read_records(p, n);
	return 0;
}
