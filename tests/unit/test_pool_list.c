/* AGENT_SANDBOX_POOL: what the list says, what is malformed, and how many there is memory for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/pool_list.h"
#include "proto/config.h"

static struct config
config(const char *list, int64_t memory, int64_t each)
{
	struct config c = {0};

	c.str[CFG_POOL] = (char *)(uintptr_t)list;
	c.num[CFG_POOL_MEMORY_MB] = memory;
	c.num[CFG_DEFAULT_MEMORY_MB] = each;
	return c;
}

static int64_t
asked(const char *list)
{
	struct config c = config(list, 1 << 20, 16);

	return pool_asked(&c);
}

static void
items_are_images_with_numbers_or_numbers_of_the_default_image(void **state)
{
	const char *list =
	    " python:3.12-slim=4 ,2,registry.example:5000/a/b@sha256:ab=1,,debian=0 ";
	static const struct {
		const char *image;
		int64_t count;
	} want[] = {{"python:3.12-slim", 4}, {NULL, 2}, {"registry.example:5000/a/b@sha256:ab", 1},
	    {"debian", 0}};
	struct pool_item item;

	(void)state;
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		assert_int_equal(pool_next(&list, &item), 1);
		assert_int_equal(item.count, want[i].count);
		if (want[i].image == NULL)
			assert_null(item.image);
		else {
			assert_int_equal(item.len, strlen(want[i].image));
			assert_memory_equal(item.image, want[i].image, item.len);
		}
	}
	assert_int_equal(pool_next(&list, &item), 0);
	assert_int_equal(pool_next(&list, &item), 0);
}

static void
all_that_is_asked_for_is_added_up(void **state)
{
	(void)state;
	assert_int_equal(asked(""), 0);
	assert_int_equal(asked("0"), 0);
	assert_int_equal(asked("2"), 2);
	assert_int_equal(asked("python=4,2,python=1"), 7);
	assert_int_equal(asked("999,a=1"), 1000);
}

static void
what_is_no_list_is_refused_whole(void **state)
{
	static const char *const wrong[] = {"x", "1000,a=1", "-1", "+1", "1.5", "1001",
	    "99999999999999999999", "=2", "a=", "a=b", "a=1=2", "a=-1", "2,a", "a=1 2", "0x2",
	    "2;3", "00001"};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct config c = config(wrong[i], 1 << 20, 16);

		if (pool_asked(&c) != -1)
			fail_msg("%s is taken", wrong[i]);
		assert_int_equal(pool_kept(&c), 0);
	}
}

static void
more_images_than_there_may_be_are_refused(void **state)
{
	char list[POOL_IMAGES_MAX * 8 + 16] = "";

	(void)state;
	for (int i = 0; i < POOL_IMAGES_MAX; i++)
		snprintf(list + strlen(list), sizeof(list) - strlen(list), "a%d=1,", i);
	assert_int_equal(asked(list), POOL_IMAGES_MAX);
	strcat(list, "b=1");
	assert_int_equal(asked(list), -1);
}

static void
no_more_are_kept_than_there_is_memory_for(void **state)
{
	static const struct {
		int64_t memory, each, kept;
	} rows[] = {{4096, 512, 6}, {3072, 512, 6}, {3071, 512, 5}, {512, 512, 1}, {511, 512, 0},
	    {0, 16, 0}, {16777216, 16777216, 1}};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct config c = config("2,a=4", rows[i].memory, rows[i].each);

		assert_int_equal(pool_asked(&c), 6);
		assert_int_equal(pool_kept(&c), rows[i].kept);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(items_are_images_with_numbers_or_numbers_of_the_default_image),
	    cmocka_unit_test(all_that_is_asked_for_is_added_up),
	    cmocka_unit_test(what_is_no_list_is_refused_whole),
	    cmocka_unit_test(more_images_than_there_may_be_are_refused),
	    cmocka_unit_test(no_more_are_kept_than_there_is_memory_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
