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

/* "<...>" for each line, "!" for one that was too long. */
static char got[4096];

static int
on_line(void *arg, const char *line, size_t n)
{
	const char *stop = arg;
	size_t at = strlen(got);

	snprintf(got + at, sizeof(got) - at, line != NULL ? "<%.*s>" : "!", (int)n, line);
	return line != NULL && stop != NULL && n == strlen(stop) && memcmp(line, stop, n) == 0 ? 7
											       : 0;
}

static void
lines_are_whole_however_they_are_cut(void **state)
{
	static const char text[] = "one\ntwo\r\n\n\r\n  \t\r\n"
				   "xxxxxxxxxxxxxxxxx\nthree\n0123456789\nrest";
	static const char want[] = "<one><two>!<three><0123456789>";

	(void)state;
	for (size_t piece = 1; piece < sizeof(text); piece++) {
		struct lines l;

		got[0] = '\0';
		lines_init(&l, 10);
		for (size_t at = 0; at < strlen(text); at += piece) {
			size_t n = strlen(text) - at;

			assert_int_equal(
			    lines_feed(&l, text + at, n < piece ? n : piece, on_line, NULL), 0);
		}
		assert_string_equal(got, want);
		for (int i = 0; i < 2; i++) {
			assert_int_equal(lines_end(&l, on_line, NULL), 0);
			assert_memory_equal(got, want, strlen(want));
			assert_string_equal(got + strlen(want), "<rest>");
		}
		lines_free(&l);
	}
}

static void
line_that_is_too_long_is_told_once_and_not_kept(void **state)
{
	char piece[1000];
	struct lines l;

	(void)state;
	memset(piece, 'x', sizeof(piece));
	got[0] = '\0';
	lines_init(&l, 5000);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(lines_feed(&l, piece, sizeof(piece), on_line, NULL), 0);
		assert_true(l.n <= 5000);
	}
	assert_string_equal(got, "!");
	assert_int_equal(lines_feed(&l, "\nok\n", 4, on_line, NULL), 0);
	assert_string_equal(got, "!<ok>");
	lines_free(&l);
}

static void
memory_of_a_long_line_is_given_back(void **state)
{
	static char piece[100000];
	struct lines l;

	(void)state;
	memset(piece, ' ', sizeof(piece));
	lines_init(&l, sizeof(piece));
	assert_int_equal(lines_feed(&l, piece, sizeof(piece), on_line, NULL), 0);
	assert_true(l.room >= sizeof(piece));
	assert_int_equal(lines_feed(&l, "\n", 1, on_line, NULL), 0);
	assert_int_equal(l.room, 0);
	lines_free(&l);
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
	    cmocka_unit_test(line_that_is_too_long_is_told_once_and_not_kept),
	    cmocka_unit_test(memory_of_a_long_line_is_given_back),
	    cmocka_unit_test(one_who_takes_lines_may_stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
