/* Which symbolic links may be made of an archive, and units of what is typed. */
// link: agent-sandbox/cp/link.o agent-sandbox/options.o agent-sandbox/show.o
// link: clients/api/text.o -ljansson
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agent-sandbox/cp/cp.h"
#include "agent-sandbox/options.h"

static void
link_stays_inside_or_is_told(void **state)
{
	static const struct {
		const char *target;
		int depth; /* of the folder that it is in */
		int stays;
	} rows[] = {
	    {"f", 0, 1},
	    {"./f", 0, 1},
	    {"d/e/f", 0, 1},
	    {"../f", 0, 0},
	    {"..", 0, 0},
	    {"../f", 1, 1},
	    {"..", 1, 1},
	    {".././f", 1, 1},
	    {"../../f", 1, 0},
	    {"../../f", 2, 1},
	    {"d/..", 0, 0},   /* d may be a link */
	    {"d/../f", 5, 0}, /* likewise */
	    {"../d/../..", 9, 0},
	    {"/etc/passwd", 5, 0},
	    {"//x", 5, 0},
	    {"", 0, 0},
	    {"..f", 0, 1},
	    {"...", 0, 1},
	    {"d//e", 0, 1},
	    {"..//..", 1, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(link_stays_inside(rows[i].target, rows[i].depth), rows[i].stays);
}

static void
times_and_sizes_have_units(void **state)
{
	double s;
	long long mb;

	(void)state;
	assert_int_equal(options_seconds("90", &s), 0);
	assert_true(s == 90);
	assert_int_equal(options_seconds("1.5h", &s), 0);
	assert_true(s == 5400);
	assert_int_equal(options_seconds(".5", &s), 0);
	assert_int_equal(options_seconds("2d", &s), 0);
	assert_true(s == 172800);
	assert_int_equal(options_megabytes("512", &mb), 0);
	assert_int_equal(mb, 512);
	assert_int_equal(options_megabytes("1.5G", &mb), 0);
	assert_int_equal(mb, 1536);
}

static void
times_and_sizes_that_cannot_be_are_refused(void **state)
{
	static const char *const times[] = {"", "0", "-1", "1x", "1hh", "h", "nan", "inf", "0x10",
	    "1e3", "1e999", " 1", "1 ", "+1", "."};
	static const char *const sizes[] = {
	    "", "0", "-5", "1k", "0.3", "1gb", "99999999999999", "m"};
	double s;
	long long mb;

	(void)state;
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
		assert_int_equal(options_seconds(times[i], &s), -1);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		assert_int_equal(options_megabytes(sizes[i], &mb), -1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(link_stays_inside_or_is_told),
	    cmocka_unit_test(times_and_sizes_have_units),
	    cmocka_unit_test(times_and_sizes_that_cannot_be_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
