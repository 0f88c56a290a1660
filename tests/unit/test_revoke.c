/* When the work of a key that expires is ended, whatever was done to the clock before. */
// link: managerd/revoke.o managerd/keys.o managerd/tenant.o common/keys_file.o common/keys_line.o
// link: common/keys_net.o -ljansson -lcrypto -levent_core
#include <event2/event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "common/ids.h"
#include "managerd/box.h"
#include "managerd/destroy.h"
#include "managerd/jobs.h"
#include "managerd/keys.h"
#include "managerd/manager.h"
#include "managerd/revoke.h"
#include "tests/unit/wall_clock.h"

struct manager mgr;

static int looked; /* at what is under way */

void
box_each(void (*fn)(struct box *, void *), void *arg)
{
	static struct box box;

	fn(&box, arg);
}

int
box_serves_run(const struct box *box)
{
	(void)box;
	return 0;
}

void
box_destroy(struct box *box, uint32_t reason, struct request *rq)
{
	(void)box, (void)reason, (void)rq;
}

void
jobs_revoke(struct box *box, int64_t now_s)
{
	(void)box, (void)now_s;
	looked++;
}

/* How often it looked in the next tick, with the clock so far ahead. */
static int
tick_at(long seconds)
{
	looked = 0;
	ahead_s = seconds;
	assert_int_equal(event_base_loop(mgr.base, EVLOOP_ONCE), 0);
	return looked;
}

static void
key_ends_also_after_the_clock_was_set_ahead_and_back(void **state)
{
	char at[TIME_TEXT_MAX], text[512], why[256];
	int n;

	(void)state;
	time_text(at, time_wall_us() + 1000 * INT64_C(1000000));
	n = snprintf(text, sizeof(text),
	    "{\"name\":\"a\",\"digest\":\"%064d\",\"expires\":\"%.19sZ\"}\n", 1, at);
	assert_int_equal(keys_replace(text, (size_t)n, why, sizeof(why)), 0);
	assert_non_null(mgr.base = event_base_new());
	revoke_start();
	assert_int_equal(tick_at(0), 0);
	assert_int_equal(tick_at(3600), 1);
	assert_int_equal(tick_at(3600), 0);
	assert_int_equal(tick_at(0), 0);
	assert_int_equal(tick_at(1010), 1);
	assert_int_equal(tick_at(1011), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(key_ends_also_after_the_clock_was_set_ahead_and_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
