/* managerd's policy: what a client may ask for, and what it gets when it asks for nothing. */
// link: managerd/policy.o managerd/spec.o common/image_ref.o managerd/egress.o common/egress.o
// link: common/egress_list.o common/egress_range.o
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "managerd/policy.h"

static const struct policy policy = {
    .default_image = "python:3.12-slim",
    .images = "python:*, node:20-slim,ghcr.io/team/*",
    .egress = {.allow_network = 1, .list = ""},
    .default_ttl_s = 900,
    .max_ttl_s = 86400,
    .default_nano_cpus = 1000000000,
    .max_nano_cpus = 4000000000,
    .default_memory_mb = 512,
    .max_memory_mb = 4096,
    .default_pids = 256,
    .max_pids = 4096,
};

static struct spec got;
static int64_t ttl;
static char text[256];
static struct strings egress; /* entries that are asked for */

static int
resolve(const struct policy *p, struct m_create ask, const char *image, const struct spec *from)
{
	spec_clear(&got);
	text[0] = '\0';
	return policy_resolve(p, &ask, image, &egress, from, &got, &ttl, text, sizeof(text));
}

static struct m_create
nothing(void)
{
	return (struct m_create){.network = NOT_GIVEN, .read_only = NOT_GIVEN};
}

static void
nothing_asked_gives_the_defaults(void **state)
{
	(void)state;
	assert_int_equal(resolve(&policy, nothing(), "", NULL), 0);
	assert_string_equal(got.image, "python:3.12-slim");
	assert_int_equal(got.nano_cpus, 1000000000);
	assert_int_equal(got.memory_mb, 512);
	assert_int_equal(got.pids_limit, 256);
	assert_int_equal(got.network, 0);
	assert_int_equal(got.read_only, 1);
	assert_int_equal(ttl, 900);
}

static void
values_at_the_maxima_pass_and_above_are_400(void **state)
{
	struct m_create ask = nothing();

	(void)state;
	ask.nano_cpus = 4000000000;
	ask.memory_mb = 4096;
	ask.pids_limit = 4096;
	ask.ttl_s = 86400;
	assert_int_equal(resolve(&policy, ask, "", NULL), 0);
	ask.nano_cpus++;
	assert_int_equal(resolve(&policy, ask, "", NULL), 400);
	assert_non_null(strstr(text, "cpus"));
	ask.nano_cpus--;
	ask.memory_mb++;
	assert_int_equal(resolve(&policy, ask, "", NULL), 400);
	assert_non_null(strstr(text, "memory_mb"));
	ask.memory_mb = 15;
	assert_int_equal(resolve(&policy, ask, "", NULL), 400);
	ask.memory_mb = 16;
	ask.pids_limit = 4097;
	assert_int_equal(resolve(&policy, ask, "", NULL), 400);
	assert_non_null(strstr(text, "pids_limit"));
	ask.pids_limit = 7;
	assert_int_equal(resolve(&policy, ask, "", NULL), 400);
	ask.pids_limit = 8;
	ask.ttl_s = 86401;
	assert_int_equal(resolve(&policy, ask, "", NULL), 400);
	assert_non_null(strstr(text, "timeout_seconds"));
	ask.ttl_s = -1;
	assert_int_equal(resolve(&policy, ask, "", NULL), 400);
	ask.ttl_s = INT64_MAX;
	assert_int_equal(resolve(&policy, ask, "", NULL), 400);
	ask.ttl_s = 1;
	ask.nano_cpus = -1;
	assert_int_equal(resolve(&policy, ask, "", NULL), 400);
}

static void
images_outside_the_globs_are_403_and_named(void **state)
{
	static const char *const good[] = {
	    "python:3.12-slim", "python:3", "node:20-slim", "ghcr.io/team/x:1"};
	static const char *const bad[] = {
	    "alpine", "evil/python:3.12-slim", "pythonx", "python", "node:20", "ghcr.io/other/x:1"};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_int_equal(resolve(&policy, nothing(), good[i], NULL), 0);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(resolve(&policy, nothing(), bad[i], NULL), 403);
		assert_non_null(strstr(text, bad[i]));
	}
	assert_int_equal(resolve(&policy, nothing(), "x y", NULL), 400);
	assert_non_null(strstr(text, "x y"));
}

static void
network_needs_the_operators_word(void **state)
{
	struct policy closed = policy;
	struct m_create ask = nothing();
	struct spec from = {.image = (char *)"python:3", .network = 1};

	(void)state;
	ask.network = 1;
	assert_int_equal(resolve(&policy, ask, "", NULL), 0);
	assert_int_equal(got.network, 1);
	closed.egress.allow_network = 0;
	assert_int_equal(resolve(&closed, ask, "", NULL), 403);
	assert_int_equal(resolve(&closed, nothing(), "", &from), 403);
	ask.network = 0;
	assert_int_equal(resolve(&closed, ask, "", &from), 0);
}

static void
fork_inherits_what_is_not_given(void **state)
{
	struct spec from = {.image = (char *)"python:3",
	    .nano_cpus = 500000000,
	    .memory_mb = 64,
	    .pids_limit = 20,
	    .network = 1,
	    .read_only = 0};
	struct m_create ask = nothing();

	(void)state;
	ask.memory_mb = 128;
	assert_int_equal(resolve(&policy, ask, NULL, &from), 0);
	assert_string_equal(got.image, "python:3");
	assert_int_equal(got.nano_cpus, 500000000);
	assert_int_equal(got.memory_mb, 128);
	assert_int_equal(got.pids_limit, 20);
	assert_int_equal(got.network, 1);
	assert_int_equal(got.read_only, 0);
	from.memory_mb = 9999;
	assert_int_equal(resolve(&policy, nothing(), NULL, &from), 400);
	from.image = (char *)"no-longer:allowed";
	from.memory_mb = 64;
	assert_int_equal(resolve(&policy, nothing(), NULL, &from), 403);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nothing_asked_gives_the_defaults),
	    cmocka_unit_test(values_at_the_maxima_pass_and_above_are_400),
	    cmocka_unit_test(images_outside_the_globs_are_403_and_named),
	    cmocka_unit_test(network_needs_the_operators_word),
	    cmocka_unit_test(fork_inherits_what_is_not_given),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	spec_clear(&got);
	return failed;
}
