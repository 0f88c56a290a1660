/* Identifiers have one spelling, hexadecimal text is exact, and times are right in every year. */
#include "tests/unit/forked.h"

#include <time.h>

#include "common/ids.h"

static void
an_id_reads_back_as_itself(void **state)
{
	char text[ID_TEXT_MAX];
	uint64_t id, back;
	int i;

	(void)state;
	for (i = 0; i < 1000; i++) {
		id = id_new();
		assert_int_not_equal(id, 0);
		assert_int_equal(id_parse(id_text(text, "sb_", id), "sb_", &back), 0);
		assert_int_equal(back, id);
	}
	assert_string_equal(id_text(text, "snap_", 0xabc), "snap_0000000000000abc");
}

static void
only_the_exact_spelling_is_an_id(void **state)
{
	static const char *const wrong[] = {"", "sb_", "sb_0123456789abcde", "sb_0123456789abcdef0",
	    "sb_0123456789ABCDEF", "sb_0000000000000000", "SB_0123456789abcdef",
	    "sb-0123456789abcdef", "sb_ 123456789abcdef", "sb_+123456789abcdef",
	    "sb_0123456789abcdeg", "sb_0x23456789abcdef", " sb_0123456789abcdef",
	    "sb_0123456789abcdef ", "snap_0123456789abcdef"};
	uint64_t id = 77;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(id_parse(wrong[i], "sb_", &id), -1);
	assert_int_equal(id, 77);
	assert_int_equal(id_parse("sb_0123456789abcdef", "sb_", &id), 0);
	assert_int_equal(id, UINT64_C(0x0123456789abcdef));
	assert_int_equal(id_parse("sb_ffffffffffffffff", "sb_", &id), 0);
	assert_int_equal(id, UINT64_MAX);
}

static void
hex_is_exact(void **state)
{
	uint8_t in[256], out[256];
	char text[513];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(in); i++)
		in[i] = (uint8_t)i;
	hex_encode(in, sizeof(in), text);
	assert_int_equal(strlen(text), 512);
	assert_int_equal(hex_decode(text, out, sizeof(out)), 0);
	assert_memory_equal(in, out, sizeof(in));
	assert_int_equal(hex_decode(text, out, 255), -1);
	assert_int_equal(hex_decode("ab", out, 2), -1);
	assert_int_equal(hex_decode("abc", out, 1), -1);
	assert_int_equal(hex_decode("AB", out, 1), -1);
	assert_int_equal(hex_decode("", out, 0), 0);
}

static void
a_time_is_what_libc_says_for_every_day_of_ten_millennia(void **state)
{
	char text[TIME_TEXT_MAX], want[64];
	int64_t day, s;
	struct tm tm;
	time_t t;

	(void)state;
	for (day = -719528; day < 2932897; day += 1) {
		s = day * 86400 + (day * 7919 % 86400 + 86400) % 86400;
		t = s;
		assert_non_null(gmtime_r(&t, &tm));
		snprintf(want, sizeof(want), "%04d-%02d-%02dT%02d:%02d:%02d.000123Z",
		    tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
		if (strcmp(time_text(text, s * 1000000 + 123), want) != 0)
			fail_msg("%lld: %s, not %s", (long long)s, text, want);
	}
}

static void
a_time_at_an_edge_is_right_or_clamped(void **state)
{
	char text[TIME_TEXT_MAX];

	(void)state;
	assert_string_equal(time_text(text, 0), "1970-01-01T00:00:00.000000Z");
	assert_string_equal(time_text(text, -1), "1969-12-31T23:59:59.999999Z");
	assert_string_equal(time_text(text, INT64_MAX), "9999-12-31T23:59:59.999999Z");
	assert_string_equal(time_text(text, INT64_MIN), "0000-01-01T00:00:00.000000Z");
	assert_string_equal(
	    time_text(text, INT64_C(951782400000000)), "2000-02-29T00:00:00.000000Z");
}

static void
a_time_reads_back_as_itself(void **state)
{
	char text[TIME_TEXT_MAX];
	int64_t back;

	(void)state;
	for (int64_t day = -719528; day < 2932897; day += 13) {
		int64_t us = (day * 86400 + (day * 7919 % 86400 + 86400) % 86400) * 1000000 + 123;

		assert_int_equal(time_parse(time_text(text, us), &back), 0);
		assert_int_equal(back, us);
	}
	assert_int_equal(time_parse("2027-01-31T00:00:00Z", &back), 0);
	assert_int_equal(back, INT64_C(1801353600000000));
	assert_int_equal(time_parse("2028-02-29T23:59:59.5Z", &back), 0);
	assert_int_equal(back % 1000000, 500000);
}

static void
what_is_no_moment_in_utc_is_no_time(void **state)
{
	static const char *const wrong[] = {"", "2027-01-31", "2027-01-31T00:00:00",
	    "2027-01-31 00:00:00Z", "2027-01-31T00:00:00+00:00", "2027-01-31T00:00:00z",
	    "2027-02-29T00:00:00Z", "2027-04-31T00:00:00Z", "2027-00-01T00:00:00Z",
	    "2027-13-01T00:00:00Z", "2027-01-00T00:00:00Z", "2027-01-31T24:00:00Z",
	    "2027-01-31T00:60:00Z", "2027-01-31T00:00:60Z", "2027-01-31T00:00:00.Z",
	    "2027-01-31T00:00:00.1234567Z", "2027-01-31T00:00:00Z ", " 2027-01-31T00:00:00Z",
	    "2027-1-31T00:00:00Z", "+027-01-31T00:00:00Z", "02027-01-31T00:00:00Z"};
	int64_t us = 77;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		if (time_parse(wrong[i], &us) != -1)
			fail_msg("taken: %s", wrong[i]);
	assert_int_equal(us, 77);
}

static void
clocks_move_forward(void **state)
{
	int64_t boot = time_boot_us(), wall = time_wall_us();

	(void)state;
	usleep(2000);
	assert_in_range(time_boot_us() - boot, 2000, 10000000);
	assert_in_range(time_wall_us() - wall, 2000, 10000000);
}

/* In microseconds, within a minute of what the kernel says. */
static void
clocks_tell_the_time_since_1970_and_since_the_boot(void **state)
{
	struct timespec boot;

	(void)state;
	assert_int_equal(clock_gettime(CLOCK_BOOTTIME, &boot), 0);
	assert_in_range(time_boot_us() / 1000000 - boot.tv_sec, 0, 60);
	assert_in_range(time_wall_us() / 1000000 - time(NULL) + 60, 0, 120);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(an_id_reads_back_as_itself),
	    cmocka_unit_test(only_the_exact_spelling_is_an_id),
	    cmocka_unit_test(hex_is_exact),
	    cmocka_unit_test(a_time_is_what_libc_says_for_every_day_of_ten_millennia),
	    cmocka_unit_test(a_time_at_an_edge_is_right_or_clamped),
	    cmocka_unit_test(a_time_reads_back_as_itself),
	    cmocka_unit_test(what_is_no_moment_in_utc_is_no_time),
	    cmocka_unit_test(clocks_move_forward),
	    cmocka_unit_test(clocks_tell_the_time_since_1970_and_since_the_boot),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
