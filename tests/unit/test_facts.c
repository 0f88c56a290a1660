/* Which versions of the engine and its runtime doctor warns about. */
// link: agent-sandbox/facts.o
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agent-sandbox/doctor.h"

static int said;

void
doctor_say(enum finding finding, const char *fmt, ...)
{
	(void)fmt;
	said += finding == FINDING_WEAK;
}

static void
version_is_affected_until_the_fix_of_its_own_line(void **state)
{
	const char *fixed = "1.2.8 1.3.3 1.4.0";

	(void)state;
	assert_true(facts_affected("1.1.5", fixed));
	assert_true(facts_affected("1.2.7", fixed));
	assert_false(facts_affected("1.2.8", fixed));
	assert_true(facts_affected("1.3.0", fixed));
	assert_false(facts_affected("1.3.3+ds1", fixed));
	assert_false(facts_affected("1.4.0", fixed));
	assert_false(facts_affected("2.0", fixed));
}

static void
line_without_a_fix_of_its_own_is_affected_until_the_newest_fix(void **state)
{
	(void)state;
	assert_true(facts_affected("24.0.9", "23.0.11 25.0.5 26.0.0"));
	assert_false(facts_affected("27.0.1", "23.0.11 25.0.5 26.0.0"));
}

static void
version_that_is_none_is_not_judged(void **state)
{
	(void)state;
	assert_false(facts_affected("", "29.5.1"));
	assert_false(facts_affected("dev", "29.5.1"));
}

static void
engines_old_and_new_are_told_apart(void **state)
{
	(void)state;
	said = 0;
	assert_int_equal(facts_tell("engine", "20.10.24+dfsg1"), 4);
	assert_int_equal(said, 4);
	assert_int_equal(facts_tell("engine", "29.7.2"), 0);
	assert_int_equal(facts_tell("runc", "1.1.5"), 2);
	assert_int_equal(facts_tell("runc", "1.3.4"), 0);
	assert_int_equal(facts_tell("crun", "0.1"), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(version_is_affected_until_the_fix_of_its_own_line),
	    cmocka_unit_test(line_without_a_fix_of_its_own_is_affected_until_the_newest_fix),
	    cmocka_unit_test(version_that_is_none_is_not_judged),
	    cmocka_unit_test(engines_old_and_new_are_told_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
