/* Records on a data socket: any cut of the stream gives the same records; a length over the limit
 * is seen at once. */
#include "tests/unit/forked.h"

#include "common/record.h"

static void
a_record_is_what_was_written(void **state)
{
	uint8_t buf[RECORD_HEADER + 3], type;
	const uint8_t *data;
	size_t len;

	(void)state;
	record_header(buf, 7, 3);
	memcpy(buf + RECORD_HEADER, "abc", 3);
	assert_int_equal(record_parse(buf, sizeof(buf), 3, &type, &data, &len), sizeof(buf));
	assert_int_equal(type, 7);
	assert_int_equal(len, 3);
	assert_memory_equal(data, "abc", 3);
}

static void
every_cut_of_a_record_waits_for_the_rest(void **state)
{
	uint8_t buf[RECORD_HEADER + 300], type;
	const uint8_t *data;
	size_t len, n;

	(void)state;
	memset(buf, 'x', sizeof(buf));
	record_header(buf, 1, 300);
	for (n = 0; n < sizeof(buf); n++)
		assert_int_equal(record_parse(buf, n, 300, &type, &data, &len), 0);
	assert_int_equal(record_parse(buf, n, 300, &type, &data, &len), n);
}

static void
a_record_over_the_limit_is_refused_as_soon_as_its_header_is_there(void **state)
{
	uint8_t buf[RECORD_HEADER], type;
	const uint8_t *data;
	size_t len;

	(void)state;
	record_header(buf, 1, 301);
	assert_int_equal(record_parse(buf, sizeof(buf), 300, &type, &data, &len), -1);
	record_header(buf, 1, UINT32_MAX);
	assert_int_equal(record_parse(buf, sizeof(buf), 300, &type, &data, &len), -1);
	assert_int_equal(record_parse(buf, sizeof(buf) - 1, 300, &type, &data, &len), 0);
}

static void
an_empty_record_is_a_record(void **state)
{
	uint8_t buf[RECORD_HEADER], type;
	const uint8_t *data;
	size_t len = 9;

	(void)state;
	record_header(buf, 3, 0);
	assert_int_equal(record_parse(buf, sizeof(buf), 0, &type, &data, &len), RECORD_HEADER);
	assert_int_equal(len, 0);
	assert_int_equal(type, 3);
}

static void
the_length_is_little_endian(void **state)
{
	uint8_t buf[RECORD_HEADER], type;
	const uint8_t *data;
	size_t len;

	(void)state;
	record_header(buf, 9, 0x01020304);
	assert_memory_equal(buf, "\x04\x03\x02\x01\x09", RECORD_HEADER);
	assert_int_equal(record_parse(buf, sizeof(buf), 0x01020304, &type, &data, &len), 0);
	assert_int_equal(record_parse(buf, sizeof(buf), 0x01020303, &type, &data, &len), -1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_record_is_what_was_written),
	    cmocka_unit_test(every_cut_of_a_record_waits_for_the_rest),
	    cmocka_unit_test(a_record_over_the_limit_is_refused_as_soon_as_its_header_is_there),
	    cmocka_unit_test(an_empty_record_is_a_record),
	    cmocka_unit_test(the_length_is_little_endian),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
