/* Text of others made fit to show: lines of errors, cells of tables, what stays of a file on a
 * terminal. */
// link: clients/api/text.o agent-sandbox/show.o -ljansson
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "agent-sandbox/show.h"
#include "clients/api/text.h"

static void
characters_are_taken_apart_as_unicode_says(void **state)
{
	static const struct {
		const char *text;
		uint32_t c;
		size_t len;
	} rows[] = {
	    {"a", 'a', 1},
	    {"\xc3\xa9", 0xe9, 2},
	    {"\xe6\xbc\xa2", 0x6f22, 3},
	    {"\xf0\x9f\x8e\x89", 0x1f389, 4},
	    {"\xf4\x8f\xbf\xbf", 0x10ffff, 4},
	    {"\x80", 0xfffd, 1},
	    {"\xc0\x80", 0xfffd, 1},         /* longer than needed */
	    {"\xe0\x80\x80", 0xfffd, 1},     /* likewise */
	    {"\xf0\x80\x80\x80", 0xfffd, 1}, /* likewise */
	    {"\xed\xa0\x80", 0xfffd, 1},     /* half of a pair */
	    {"\xf4\x90\x80\x80", 0xfffd, 1}, /* beyond the last */
	    {"\xf8\x88\x80\x80", 0xfffd, 1},
	    {"\xff", 0xfffd, 1},
	    {"\xe6\xbc", 0xfffd, 1}, /* cut */
	    {"\xe6\xbcz", 0xfffd, 1},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint32_t c = 0;

		assert_int_equal(text_char(rows[i].text, strlen(rows[i].text), &c), rows[i].len);
		assert_int_equal(c, rows[i].c);
	}
}

static void
line_has_nothing_that_a_terminal_obeys(void **state)
{
	char out[64];

	(void)state;
	text_line("a\x1b[31mb\x07\x7f\xc2\x9b", 11, out, sizeof(out));
	assert_string_equal(out, "a?[31mb???");
	text_line(" two\r\n\tlines\n", 13, out, sizeof(out));
	assert_string_equal(out, " two lines");
	text_line("x\xe2\x80\xaey\xff", 6, out, sizeof(out));
	assert_string_equal(out, "x?y?");
	text_line("caf\xc3\xa9", 5, out, sizeof(out));
	assert_string_equal(out, "caf\xc3\xa9");
}

static void
line_is_never_cut_inside_of_a_character(void **state)
{
	char out[6];

	(void)state;
	assert_int_equal(text_line("abc\xe6\xbc\xa2", 6, out, sizeof(out)), 3);
	assert_string_equal(out, "abc");
	assert_int_equal(text_line("ab\xe6\xbc\xa2", 5, out, sizeof(out)), 5);
	assert_int_equal(text_line("abcdefgh", 8, out, 1), 0);
	assert_string_equal(out, "");
}

static void
cell_shows_what_it_cannot_print(void **state)
{
	char out[64], small[8];

	(void)state;
	assert_string_equal(
	    show_line("a\x1b[2J\n\t\xff", out, sizeof(out)), "a\\x1b[2J\\n\\t\\xff");
	assert_string_equal(show_line("\xe2\x80\xae", out, sizeof(out)), "\\u{202e}");
	assert_string_equal(show_line("\xc2\x9b", out, sizeof(out)), "\\x9b");
	assert_string_equal(show_line("abcde\x1b", small, sizeof(small)), "abcde");
	assert_string_equal(show_bytes("a\0b", 3, out, sizeof(out)), "a\\x00b");
}

static void
sizes_and_times_are_short(void **state)
{
	char size[SHOW_SIZE_MAX], left[SHOW_TIME_MAX];

	(void)state;
	assert_string_equal(show_size(size, 0), "0 B");
	assert_string_equal(show_size(size, 1023), "1023 B");
	assert_string_equal(show_size(size, 1536), "1.5 KiB");
	assert_string_equal(show_size(size, (int64_t)300 << 20), "300 MiB");
	assert_string_equal(show_size(size, INT64_MAX), "8388608 TiB");
	assert_string_equal(show_duration(left, -5), "0s");
	assert_string_equal(show_duration(left, 59), "59s");
	assert_string_equal(show_duration(left, 3599), "59m 59s");
	assert_string_equal(show_duration(left, 7260), "2h 1m");
	assert_string_equal(show_duration(left, 90000), "1d 1h");
	assert_true(strlen(show_duration(left, INT64_MAX)) < SHOW_TIME_MAX);
}

static void
times_are_read_as_the_api_writes_them(void **state)
{
	(void)state;
	assert_int_equal(show_parse_time("1970-01-01T00:00:10.123456Z"), 10);
	assert_int_equal(show_parse_time("2026-11-29T10:00:00Z"), 1795946400);
	assert_int_equal(show_parse_time("2026-11-29 10:00:00"), -1);
	assert_int_equal(show_parse_time("2026-11-29T10:00:00"), -1);
	assert_int_equal(show_parse_time(""), -1);
	assert_int_equal(show_parse_time(NULL), -1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(characters_are_taken_apart_as_unicode_says),
	    cmocka_unit_test(line_has_nothing_that_a_terminal_obeys),
	    cmocka_unit_test(line_is_never_cut_inside_of_a_character),
	    cmocka_unit_test(cell_shows_what_it_cannot_print),
	    cmocka_unit_test(sizes_and_times_are_short),
	    cmocka_unit_test(times_are_read_as_the_api_writes_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
