/* Lines out of a stream that comes in pieces. */
// link: clients/api/lines.o
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "clients/api/lines.h"

static char got[256];

static int
on_line(void *arg, const char *line, size_t n)
{
	const char *stop = arg;

	snprintf(got + strlen(got), sizeof(got) - strlen(got), "<%.*s>", (int)n, line);
	return stop != NULL && n == strlen(stop) && memcmp(line, stop, n) == 0 ? 7 : 0;
}

static void
lines_are_whole_however_they_are_cut(void **state)
{
	static const char text[] = "one\ntwo\r\n\n\r\nthree\nrest";
	struct lines l;

	(void)state;
	for (size_t piece = 1; piece < sizeof(text); piece++) {
		got[0] = '\0';
		lines_init(&l, 100);
		for (size_t at = 0; at < strlen(text); at += piece) {
			size_t n = strlen(text) - at;

			assert_int_equal(
			    lines_feed(&l, text + at, n < piece ? n : piece, on_line, NULL), 0);
		}
		assert_string_equal(got, "<one><two><three>");
		assert_int_equal(lines_end(&l, on_line, NULL), 0);
		assert_string_equal(got, "<one><two><three><rest>");
		assert_int_equal(lines_end(&l, on_line, NULL), 0);
		assert_string_equal(got, "<one><two><three><rest>");
		lines_free(&l);
	}
}

static void
line_that_is_too_long_is_refused_before_it_is_kept(void **state)
{
	struct lines l;

	(void)state;
	got[0] = '\0';
	lines_init(&l, 4);
	assert_int_equal(lines_feed(&l, "abcd\n", 5, on_line, NULL), 0);
	assert_int_equal(lines_feed(&l, "abcde\n", 6, on_line, NULL), LINES_TOO_LONG);
	lines_free(&l);
	assert_int_equal(lines_feed(&l, "ab", 2, on_line, NULL), 0);
	assert_int_equal(lines_feed(&l, "cd", 2, on_line, NULL), 0);
	assert_int_equal(lines_feed(&l, "e", 1, on_line, NULL), LINES_TOO_LONG);
	lines_free(&l);
	assert_int_equal(lines_feed(&l, "ab", 2, on_line, NULL), 0);
	assert_int_equal(lines_feed(&l, "cde\n", 4, on_line, NULL), LINES_TOO_LONG);
	lines_free(&l);
	assert_string_equal(got, "<abcd>");
}

static void
one_who_takes_lines_may_stop(void **state)
{
	struct lines l;
	char stop[] = "b";

	(void)state;
	got[0] = '\0';
	lines_init(&l, 100);
	assert_int_equal(lines_feed(&l, "a\nb\nc\n", 6, on_line, stop), 7);
	assert_string_equal(got, "<a><b>");
	lines_free(&l);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(lines_are_whole_however_they_are_cut),
	    cmocka_unit_test(line_that_is_too_long_is_refused_before_it_is_kept),
	    cmocka_unit_test(one_who_takes_lines_may_stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
