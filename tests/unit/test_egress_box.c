/* The limits of a sandbox's connections to the outside. */
// link: egressd/box.o common/egress.o common/egress_list.o common/egress_range.o
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "egressd/box.h"

#define SECOND INT64_C(1000000)

static int
group_setup(void **state)
{
	(void)state;
	box_limits(&(struct box_limits){.dials = 20, .rate = 10, .bytes = 1000});
	return 0;
}

/* How many of n connections, which end at once, are admitted now. */
static int
admitted(struct box *b, int n, int64_t now)
{
	int yes = 0;

	while (n-- > 0) {
		enum reason r = box_admit(b, now);
		if (r == REASON_NONE) {
			yes++;
			box_release(b);
		} else
			assert_int_equal(r, REASON_TOO_FAST);
	}
	return yes;
}

static void
as_many_as_a_second_allows_at_once_and_then_at_that_rate(void **state)
{
	struct box *b = box_of(1), *other = box_of(2);
	int64_t now = 1000 * SECOND;
	int all = 0;

	(void)state;
	assert_int_equal(admitted(b, 50, now), 10);
	assert_int_equal(admitted(other, 50, now), 10);
	assert_int_equal(admitted(b, 50, now), 0);
	assert_int_equal(admitted(b, 50, now + SECOND / 10 - 1), 0);
	assert_int_equal(admitted(b, 50, now + SECOND / 10), 1);
	/* In small steps no fraction is lost or won. */
	now += SECOND;
	admitted(b, 50, now);
	for (int i = 0; i < 7000; i++)
		all += admitted(b, 1, now += 1000);
	assert_int_equal(all, 70);
	/* A long pause, or a clock at its end, is worth one second. */
	assert_int_equal(admitted(b, 50, now + 3600 * SECOND), 10);
	assert_int_equal(admitted(b, 50, INT64_MAX / 2), 10);
	box_forget(b);
	box_forget(other);
	assert_null(box_find(1));
}

static void
only_so_many_at_once(void **state)
{
	struct box *b = box_of(1);
	int64_t now = SECOND;
	int i;

	(void)state;
	for (i = 0; i < 20; i++)
		assert_int_equal(box_admit(b, now += SECOND), REASON_NONE);
	assert_int_equal(box_admit(b, now += SECOND), REASON_TOO_MANY);
	box_release(b);
	assert_int_equal(box_admit(b, now += SECOND), REASON_NONE);
	assert_int_equal(box_admit(b, now += SECOND), REASON_TOO_MANY);
	/* What is forgotten while connections last counts with no new one. */
	box_forget(b);
	assert_null(box_find(1));
	assert_ptr_not_equal(box_of(1), b);
	assert_int_equal(box_admit(box_of(1), now), REASON_NONE);
	box_release(box_of(1));
	for (i = 0; i < 20; i++)
		box_release(b);
	box_forget(box_of(1));
}

static void
bytes_are_counted_to_the_end_of_the_sandbox(void **state)
{
	struct box *b = box_of(1);

	(void)state;
	b->bytes = 999;
	assert_int_equal(box_left(b), 1);
	assert_int_equal(box_admit(b, SECOND), REASON_NONE);
	b->bytes = 1000;
	assert_int_equal(box_left(b), 0);
	assert_int_equal(box_admit(b, 2 * SECOND), REASON_BYTES);
	assert_int_equal(box_admit(b, 3600 * SECOND), REASON_BYTES);
	box_release(b);
	assert_int_equal(box_of(1)->bytes, 1000);
	box_forget(b);
	assert_int_equal(box_of(1)->bytes, 0);
	box_forget(box_of(1));
}

static void
sandboxes_that_share_a_bucket_are_not_mixed_up(void **state)
{
	struct box *a = box_of(5), *b = box_of(5 + 1024), *c = box_of(5 + 2048);

	(void)state;
	assert_true(a != b && b != c && a != c);
	box_forget(b);
	assert_null(box_find(5 + 1024));
	assert_ptr_equal(box_find(5), a);
	assert_ptr_equal(box_find(5 + 2048), c);
	box_forget(a);
	box_forget(c);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(as_many_as_a_second_allows_at_once_and_then_at_that_rate),
	    cmocka_unit_test(only_so_many_at_once),
	    cmocka_unit_test(bytes_are_counted_to_the_end_of_the_sandbox),
	    cmocka_unit_test(sandboxes_that_share_a_bucket_are_not_mixed_up),
	};

	return cmocka_run_group_tests(tests, group_setup, NULL);
}
