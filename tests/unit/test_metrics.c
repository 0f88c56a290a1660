// link: apid/metrics_text.o -levent_core
/* What apid takes of managerd's numbers, and the text that it makes of numbers. */
#include <event2/buffer.h>

#include "tests/unit/forked.h"

#include "apid/metrics.h"
#include "managerd/box.h"
#include "managerd/pool.h"
#include "proto/apid_managerd.h"

static struct metrics_part part;
static struct evbuffer *out;

static int
begin(void **state)
{
	(void)state;
	memset(&part, 0, sizeof(part));
	out = evbuffer_new();
	return out == NULL ? -1 : 0;
}

static int
end(void **state)
{
	(void)state;
	evbuffer_free(out);
	return 0;
}

static const char *
text(void)
{
	evbuffer_add(out, "", 1);
	return (const char *)evbuffer_pullup(out, -1);
}

static const char *
take(uint32_t metric, uint32_t item, const char *label, int64_t value)
{
	struct m_metric m = {.metric = metric, .item = item, .value = {value}};

	return metrics_take(&part, out, &m, label, strlen(label));
}

static void
each_metric_is_told_of_once_and_all_its_values_follow(void **state)
{
	(void)state;
	assert_null(take(METRIC_sandboxes, 0, "a", 3));
	assert_null(take(METRIC_sandboxes, 0, "b", 4));
	assert_null(take(METRIC_engine_up, 0, "", 1));
	assert_string_equal(text(),
	    "# HELP agent_sandbox_sandboxes Sandboxes.\n"
	    "# TYPE agent_sandbox_sandboxes gauge\n"
	    "agent_sandbox_sandboxes{state=\"creating\",tenant=\"a\"} 3\n"
	    "agent_sandbox_sandboxes{state=\"running\",tenant=\"a\"} 0\n"
	    "agent_sandbox_sandboxes{state=\"stopped\",tenant=\"a\"} 0\n"
	    "agent_sandbox_sandboxes{state=\"rolling_back\",tenant=\"a\"} 0\n"
	    "agent_sandbox_sandboxes{state=\"destroying\",tenant=\"a\"} 0\n"
	    "agent_sandbox_sandboxes{state=\"creating\",tenant=\"b\"} 4\n"
	    "agent_sandbox_sandboxes{state=\"running\",tenant=\"b\"} 0\n"
	    "agent_sandbox_sandboxes{state=\"stopped\",tenant=\"b\"} 0\n"
	    "agent_sandbox_sandboxes{state=\"rolling_back\",tenant=\"b\"} 0\n"
	    "agent_sandbox_sandboxes{state=\"destroying\",tenant=\"b\"} 0\n"
	    "# HELP agent_sandbox_engine_up 1 when the engine answers.\n"
	    "# TYPE agent_sandbox_engine_up gauge\n"
	    "agent_sandbox_engine_up 1\n");
}

static void
a_histogram_is_cumulative_and_its_sum_is_in_seconds(void **state)
{
	struct m_metric m = {.metric = METRIC_engine_call_seconds, .item = METRIC_CALL_PING};
	const char *got;

	(void)state;
	metric_observe(m.value, 1000);
	metric_observe(m.value, 1001);
	metric_observe(m.value, 70000000);
	metric_observe(m.value, -5);
	assert_null(metrics_take(&part, out, &m, "", 0));
	got = text();
	assert_non_null(strstr(got, "_bucket{call=\"ping\",le=\"0.001\"} 2\n"));
	assert_non_null(strstr(got, "_bucket{call=\"ping\",le=\"0.0025\"} 3\n"));
	assert_non_null(strstr(got, "_bucket{call=\"ping\",le=\"60\"} 3\n"));
	assert_non_null(strstr(got, "_bucket{call=\"ping\",le=\"+Inf\"} 4\n"));
	assert_non_null(strstr(got, "_sum{call=\"ping\"} 70.002001\n"));
	assert_non_null(strstr(got, "_count{call=\"ping\"} 4\n"));
}

static void
what_could_be_taken_for_something_else_is_refused(void **state)
{
	static const char *const labels[] = {
	    "", "a\"} 1\nx", "a\\", "a b", "a\n", "\x7f", "\xc3\xa4"};
	struct m_metric m = {.metric = METRIC_engine_up, .value = {1, 1}};
	char whole[METRIC_TEXT_MAX + 1];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(labels) / sizeof(labels[0]); i++)
		assert_non_null(take(METRIC_snapshots, 0, labels[i], 1));
	assert_non_null(take(METRIC_engine_up, 0, "a", 1)); /* it has no such label */
	assert_non_null(take(METRICS, 0, "", 1));
	assert_non_null(take(UINT32_MAX, 0, "", 1));
	assert_non_null(take(METRIC_build_info, 0, "", 1));     /* apid's own */
	assert_non_null(take(METRIC_restarts_total, 0, "", 1)); /* the parent's */
	assert_non_null(take(METRIC_engine_up, 1, "", 1));
	assert_non_null(take(METRIC_engine_call_seconds, METRIC_CALLS, "", 1));
	assert_non_null(take(METRIC_engine_up, 0, "", -1));
	assert_non_null(take(METRIC_engine_up, 0, "", METRIC_VALUE_MAX + 1));
	assert_non_null(metrics_take(&part, out, &m, "", 0)); /* more values than it has */
	assert_int_equal(evbuffer_get_length(out), 0);
	memset(whole, 'a', METRIC_TEXT_MAX);
	whole[METRIC_TEXT_MAX] = '\0';
	assert_null(take(METRIC_snapshots, 0, whole, METRIC_VALUE_MAX));
}

static void
nothing_stands_twice_or_out_of_order(void **state)
{
	(void)state;
	assert_null(take(METRIC_snapshots, 0, "b", 1));
	assert_non_null(take(METRIC_snapshots, 0, "b", 1));
	assert_non_null(take(METRIC_snapshots, 0, "a", 1));
	assert_non_null(take(METRIC_commands, 0, "c", 1));
	assert_null(take(METRIC_snapshots, 0, "ba", 1));
	assert_null(take(METRIC_engine_call_seconds, 1, "", 1));
	assert_non_null(take(METRIC_engine_call_seconds, 1, "", 1));
	assert_non_null(take(METRIC_engine_call_seconds, 0, "", 1));
	assert_null(take(METRIC_engine_call_seconds, 2, "", 1));
}

static void
what_is_not_known_has_no_line(void **state)
{
	const int64_t value[METRIC_PROGRAMS] = {1, -1, 3, -1, -1, -1, 0};

	(void)state;
	metrics_row(out, METRIC_program_descriptors, 0, value, "");
	assert_string_equal(text(),
	    "agent_sandbox_program_descriptors{program=\"apid\"} 1\n"
	    "agent_sandbox_program_descriptors{program=\"dockerd-proxy\"} 3\n"
	    "agent_sandbox_program_descriptors{program=\"agent-sandboxd\"} 0\n");
}

/* The values of labels are named in proto/metrics.h, and counted by managerd's own numbers. */
static void
values_of_labels_are_in_the_order_of_what_is_counted(void **state)
{
#define SET(id, label, values) [METRIC_SET_##id] = values,
	static const char *const sets[] = {METRIC_SETS(SET)};
#define MISS(name, key, text) key ","
	static const char misses[] = POOL_MISSES(MISS);

	(void)state;
	assert_int_equal(strncmp(sets[METRIC_SET_REASON], misses, sizeof(misses) - 2), 0);
	assert_int_equal(strlen(sets[METRIC_SET_REASON]), sizeof(misses) - 2);
	assert_int_equal(BOX_STATES, 5);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
	    TEST(each_metric_is_told_of_once_and_all_its_values_follow),
	    TEST(a_histogram_is_cumulative_and_its_sum_is_in_seconds),
	    TEST(what_could_be_taken_for_something_else_is_refused),
	    TEST(nothing_stands_twice_or_out_of_order),
	    TEST(what_is_not_known_has_no_line),
	    TEST(values_of_labels_are_in_the_order_of_what_is_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
