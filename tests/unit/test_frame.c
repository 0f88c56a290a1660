/* Frames of the guest stream: what was written is read; one wrong bit is refused; the stream is
 * found again. */
#include "tests/unit/forked.h"

#include "common/crc32.h"
#include "common/frame.h"

#define LARGEST (FRAME_HEADER + FRAME_DATA_MAX)

static uint8_t buf[2 * LARGEST];

static size_t
put(uint8_t *at, uint8_t type, uint16_t channel, const void *data, uint32_t len)
{
	memmove(at + FRAME_HEADER, data, len);
	frame_header(at, type, channel, at + FRAME_HEADER, len);
	return FRAME_HEADER + len;
}

static void
the_checksum_is_the_one_of_ieee_802_3(void **state)
{
	(void)state;
	assert_int_equal(crc32_update(0, "123456789", 9), 0xcbf43926);
	assert_int_equal(crc32_update(0, "", 0), 0);
	assert_int_equal(
	    crc32_update(0, "The quick brown fox jumps over the lazy dog", 43), 0x414fa339);
}

static uint32_t
crc_bit_by_bit(const uint8_t *p, size_t n)
{
	uint32_t c = 0xffffffff;
	int k;

	while (n-- > 0)
		for (c ^= *p++, k = 0; k < 8; k++)
			c = c >> 1 ^ (c & 1 ? 0xedb88320u : 0);
	return ~c;
}

static void
the_checksum_does_not_depend_on_how_it_is_cut_or_aligned(void **state)
{
	uint8_t bytes[80];
	size_t at, len, cut;
	uint32_t c;

	(void)state;
	for (at = 0; at < sizeof(bytes); at++)
		bytes[at] = (uint8_t)(at * 151 + 7);
	for (at = 0; at < 9; at++)
		for (len = 0; len < 64; len++) {
			c = crc_bit_by_bit(bytes + at, len);
			for (cut = 0; cut <= len; cut++)
				assert_int_equal(crc32_update(crc32_update(0, bytes + at, cut),
						     bytes + at + cut, len - cut),
				    c);
		}
}

/* Every length around the steps of the folding, and long ones, at every alignment. */
static void
the_processor_and_the_tables_agree(void **state)
{
	static uint8_t bytes[FRAME_DATA_MAX + 16];
	size_t at, len;
	uint32_t x = 1, first;

	(void)state;
	for (at = 0; at < sizeof(bytes); at++) {
		x = x * 1664525 + 1013904223;
		bytes[at] = (uint8_t)(x >> 24);
	}
	for (at = 0; at < 16; at++)
		for (len = 0; len <= 300; len++) {
			first = (uint32_t)(at * 0x9e3779b9u + len);
			assert_int_equal(crc32_update(first, bytes + at, len),
			    crc32_by_table(first, bytes + at, len));
			assert_int_equal(crc32_update(first, bytes + at, FRAME_DATA_MAX - len),
			    crc32_by_table(first, bytes + at, FRAME_DATA_MAX - len));
		}
	for (len = 0; len <= 300; len++)
		assert_int_equal(crc32_update(0, bytes, len), crc_bit_by_bit(bytes, len));
}

static void
a_frame_is_what_was_written(void **state)
{
	static const uint32_t sizes[] = {0, 1, 7, 8, 4096, FRAME_DATA_MAX};
	static uint8_t data[FRAME_DATA_MAX];
	struct frame f;
	size_t i, n;

	(void)state;
	for (i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 31);
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		n = put(buf, 42, 0x1234, data, sizes[i]);
		assert_int_equal(frame_parse(buf, n, &f), n);
		assert_int_equal(frame_parse(buf, n + 100, &f), n);
		assert_int_equal(f.type, 42);
		assert_int_equal(f.flags, 0);
		assert_int_equal(f.channel, 0x1234);
		assert_int_equal(f.len, sizes[i]);
		assert_memory_equal(f.data, data, sizes[i]);
	}
}

static void
every_cut_of_a_frame_waits_for_the_rest(void **state)
{
	struct frame f;
	size_t n = put(buf, 1, 2, "0123456789", 10), k;

	(void)state;
	for (k = 0; k < n; k++)
		assert_int_equal(frame_parse(buf, k, &f), 0);
}

/* Some flips in the length make it ask for more bytes instead; with those bytes there, the checksum
 * says no. */
static void
no_single_wrong_bit_gets_through(void **state)
{
	struct frame f;
	size_t n, bit;

	(void)state;
	memset(buf, 0, sizeof(buf));
	n = put(buf, 3, 5, "some data, and some more", 24);
	for (bit = 0; bit < n * 8; bit++) {
		buf[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_int_equal(frame_parse(buf, sizeof(buf), &f), -1);
		buf[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	assert_int_equal(frame_parse(buf, sizeof(buf), &f), n);
}

static void
a_length_over_the_limit_is_refused_before_its_data_come(void **state)
{
	struct frame f;

	(void)state;
	frame_header(buf, 1, 1, "", 0);
	buf[8] = 1;
	buf[10] = 1; /* 65537 */
	assert_int_equal(frame_parse(buf, FRAME_HEADER, &f), -1);
}

static void
garbage_is_refused_after_four_bytes(void **state)
{
	struct frame f;

	(void)state;
	assert_int_equal(frame_parse((const uint8_t *)"ASf", 3, &f), 0);
	assert_int_equal(frame_parse((const uint8_t *)"ASf2", 4, &f), -1);
	assert_int_equal(frame_parse((const uint8_t *)"ASf1", 4, &f), 0);
}

/* As a reader does: parse, else skip to where the next frame may begin. */
static size_t
find(const uint8_t *p, size_t n, size_t *skipped)
{
	struct frame f;
	size_t at = 0, step;
	int64_t r;

	while (at < n) {
		if ((r = frame_parse(p + at, n - at, &f)) > 0) {
			*skipped = at;
			return (size_t)r;
		}
		if (r == 0)
			return 0;
		step = frame_resync(p + at, n - at);
		assert_in_range(step, 1, n - at);
		at += step;
	}
	*skipped = at;
	return 0;
}

static void
the_stream_is_found_again_after_any_garbage(void **state)
{
	static const char *const garbage[] = {"", "x", "A", "AS", "ASf", "ASf1", "AASf", "ASfASf1",
	    "ASf1 not a frame at all, and longer than a header", "ASASASAS"};
	size_t i, n, skipped = 0, len;

	(void)state;
	for (i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++) {
		len = strlen(garbage[i]);
		memset(buf, 0, sizeof(buf));
		memcpy(buf, garbage[i], len);
		n = put(buf + len, 9, 1, "payload", 7);
		/* A false start may claim a long length; padding, as at an attachment, is longer
		 * than any. */
		assert_int_equal(find(buf, sizeof(buf), &skipped), n);
		assert_int_equal(skipped, len);
	}
}

static void
a_magic_cut_at_the_end_is_kept(void **state)
{
	(void)state;
	assert_int_equal(frame_resync((const uint8_t *)"xxxxASf", 7), 4);
	assert_int_equal(frame_resync((const uint8_t *)"xxxxA", 5), 4);
	assert_int_equal(frame_resync((const uint8_t *)"xxxxAS1", 7), 7);
	assert_int_equal(frame_resync((const uint8_t *)"ASf1", 4), 4);
	assert_int_equal(frame_resync(NULL, 0), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_checksum_is_the_one_of_ieee_802_3),
	    cmocka_unit_test(the_checksum_does_not_depend_on_how_it_is_cut_or_aligned),
	    cmocka_unit_test(the_processor_and_the_tables_agree),
	    cmocka_unit_test(a_frame_is_what_was_written),
	    cmocka_unit_test(every_cut_of_a_frame_waits_for_the_rest),
	    cmocka_unit_test(no_single_wrong_bit_gets_through),
	    cmocka_unit_test(a_length_over_the_limit_is_refused_before_its_data_come),
	    cmocka_unit_test(garbage_is_refused_after_four_bytes),
	    cmocka_unit_test(the_stream_is_found_again_after_any_garbage),
	    cmocka_unit_test(a_magic_cut_at_the_end_is_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
