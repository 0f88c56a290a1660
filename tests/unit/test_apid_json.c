// link: apid/json_in.o apid/json_out.o common/base64.o apid/env.o -ljansson
/* apid's JSON: what is refused and why, and how numbers and bytes are written. */
#include "tests/unit/forked.h"

#include <event2/buffer.h>

#include "apid/env.h"
#include "apid/json_in.h"
#include "apid/json_out.h"

static int
parse(const char *text, json_t **out)
{
	struct refusal why;

	return json_parse(text, strlen(text), out, &why) == 0 ? 0 : why.status;
}

static void
bodies_are_one_strict_object(void **state)
{
	static const char *const not_json[] = {"", " ", "[]", "1", "null", "{} x", "{'a':1}",
	    "{\"a\":1,}", "{\"a\":NaN}", "{\"a\":01}", "{\"a\":\"\\x\"}", "{\"a\":1,\"a\":1}",
	    "{\"a\":\"\xff\"}"};
	json_t *v;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(not_json) / sizeof(not_json[0]); i++)
		assert_int_equal(parse(not_json[i], &v), 422);
	assert_int_equal(parse("{\"a\":\"x\\u0000y\"}", &v), 0);
	assert_true(string_has_nul(json_object_get(v, "a")));
	json_decref(v);
	assert_int_equal(parse("{\"a\\u0000\":1}", &v), 400);
}

static void
numbers_out_of_range_are_400(void **state)
{
	json_t *v;

	(void)state;
	assert_int_equal(parse("{\"a\":1e400}", &v), 400);
	assert_int_equal(parse("{\"a\":9223372036854775808}", &v), 400);
	assert_int_equal(parse("{\"a\":1e-400}", &v), 0);
	assert_int_equal(json_scaled(json_object_get(v, "a"), 1e9), -1);
	json_decref(v);
}

static void
depth_is_bounded_before_parsing(void **state)
{
	char *text = malloc(400001);
	json_t *v;

	(void)state;
	memset(text, '[', 400000);
	text[400000] = '\0';
	assert_int_equal(parse(text, &v), 422);
	strcpy(text, "{\"a\":\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\\\"[\"}");
	assert_int_equal(parse(text, &v), 0);
	json_decref(v);
	free(text);
}

static void
scaled_numbers_are_never_zero_and_never_wrap(void **state)
{
	json_t *v;

	(void)state;
	v = json_pack("[f, f, f, i, f, f]", 0.25, 1e-12, 1e300, 4, 0.0, -1.0);
	assert_int_equal(json_scaled(json_array_get(v, 0), 1e9), 250000000);
	assert_int_equal(json_scaled(json_array_get(v, 1), 1e9), 1);
	assert_true(json_scaled(json_array_get(v, 2), 1e9) == INT64_MAX);
	assert_int_equal(json_scaled(json_array_get(v, 3), 1e9), 4000000000);
	assert_int_equal(json_scaled(json_array_get(v, 4), 1e9), -1);
	assert_int_equal(json_scaled(json_array_get(v, 5), 1e9), -1);
	json_decref(v);
}

static void
fields_are_known_typed_and_may_be_null(void **state)
{
	static const struct field fields[] = {{"n", FIELD_INTEGER, 16}, {"s", FIELD_STRING, 0}};
	struct refusal why;
	json_t *body = json_pack("{s:f, s:n}", "n", 64.0, "s"), *v[2];

	(void)state;
	assert_int_equal(json_fields(body, fields, 2, v, &why), 0);
	assert_int_equal(json_int(v[0], 0), 64);
	assert_null(v[1]);
	json_object_set_new(body, "n", json_integer(15));
	assert_int_equal(json_fields(body, fields, 2, v, &why), -1);
	assert_string_equal(why.text, "n: must be an integer >= 16");
	json_object_set_new(body, "n", json_real(1e300));
	assert_int_equal(json_fields(body, fields, 2, v, &why), 0);
	assert_true(json_int(v[0], 0) == INT64_MAX);
	json_object_set_new(body, "x", json_null());
	assert_int_equal(json_fields(body, fields, 2, v, &why), -1);
	assert_int_equal(why.status, 422);
	json_decref(body);
}

static void
members_that_are_not_known_are_passed_over_where_that_is_said(void **state)
{
	static const struct field fields[] = {{"n", FIELD_INTEGER, 16}, {"o", FIELD_OBJECT, 0}};
	struct refusal why;
	json_t *body = json_pack("{s:i, s:{s:i}, s:i, s:n}", "n", 16, "o", "a", 1, "x", 1, "y");
	json_t *v[2];

	(void)state;
	assert_int_equal(json_some_fields(body, fields, 2, v, &why), 0);
	assert_int_equal(json_int(v[0], 0), 16);
	assert_true(json_is_object(v[1]));
	json_object_set_new(body, "o", json_array());
	assert_int_equal(json_some_fields(body, fields, 2, v, &why), -1);
	assert_string_equal(why.text, "o: must be an object");
	assert_int_equal(json_some_fields(NULL, fields, 2, v, &why), 0);
	assert_null(v[0]);
	json_decref(body);
}

static void
expect_nano(int64_t v, const char *text)
{
	struct evbuffer *out = evbuffer_new();

	out_nano(out, v);
	evbuffer_add(out, "", 1);
	assert_string_equal(evbuffer_pullup(out, -1), text);
	evbuffer_free(out);
}

static void
decimal_numbers_are_written_shortest(void **state)
{
	(void)state;
	expect_nano(1000000000, "1.0");
	expect_nano(250000000, "0.25");
	expect_nano(1, "0.000000001");
	expect_nano(4096000000000, "4096.0");
	expect_nano(-5, "0.0");
}

static void
a_character_over_three_pieces_stays_whole(void **state)
{
	struct evbuffer *out = evbuffer_new();
	struct utf8 u = {0};

	(void)state;
	assert_int_equal(json_escape(out, &u, "\xe2", 1), 0);
	assert_int_equal(json_escape(out, &u, "\x98", 1), 0);
	assert_int_equal(json_escape(out, &u, "\x95\xe2", 2), 3);
	assert_int_equal(json_escape_end(out, &u), 3);
	assert_int_equal(json_escape_end(out, &u), 0);
	assert_memory_equal(evbuffer_pullup(out, -1), "\xe2\x98\x95\xef\xbf\xbd", 6);
	evbuffer_free(out);
}

/* Several bytes are looked at at once: each value, at each place among them, comes out as it does
 * alone. */
static void
every_byte_is_escaped_wherever_it_stands(void **state)
{
	struct evbuffer *whole = evbuffer_new(), *single = evbuffer_new();
	struct utf8 u = {0}, one = {0};
	char text[37];
	size_t at, i;
	int ch;

	(void)state;
	for (at = 0; at < sizeof(text); at++) {
		for (ch = 0; ch < 256; ch++) {
			memset(text, '~', sizeof(text));
			text[at] = (char)ch;
			json_escape(whole, &u, text, sizeof(text));
			json_escape_end(whole, &u);
			for (i = 0; i < sizeof(text); i++)
				json_escape(single, &one, text + i, 1);
			json_escape_end(single, &one);
			assert_int_equal(evbuffer_get_length(whole), evbuffer_get_length(single));
			assert_memory_equal(evbuffer_pullup(whole, -1), evbuffer_pullup(single, -1),
			    evbuffer_get_length(whole));
			evbuffer_drain(whole, evbuffer_get_length(whole));
			evbuffer_drain(single, evbuffer_get_length(single));
		}
	}
	evbuffer_free(whole);
	evbuffer_free(single);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(bodies_are_one_strict_object),
	    cmocka_unit_test(numbers_out_of_range_are_400),
	    cmocka_unit_test(depth_is_bounded_before_parsing),
	    cmocka_unit_test(scaled_numbers_are_never_zero_and_never_wrap),
	    cmocka_unit_test(fields_are_known_typed_and_may_be_null),
	    cmocka_unit_test(members_that_are_not_known_are_passed_over_where_that_is_said),
	    cmocka_unit_test(decimal_numbers_are_written_shortest),
	    cmocka_unit_test(a_character_over_three_pieces_stays_whole),
	    cmocka_unit_test(every_byte_is_escaped_wherever_it_stands),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
