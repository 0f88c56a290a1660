// link: apid/head.o apid/chunk.o apid/path.o apid/auth.o common/base64.o apid/browser.o -lcrypto
/* apid's pure parsers of HTTP: heads, chunks, queries, paths, ranges, keys. */
#include "tests/unit/forked.h"

#include "apid/auth.h"
#include "apid/browser.h"
#include "apid/chunk.h"
#include "apid/path.h"
#include "proto/job.h"

static struct slice
slice(const char *text)
{
	return (struct slice){text, strlen(text)};
}

static int
status_of(const char *text, size_t n, struct head *h)
{
	const char *why = NULL;
	char *copy = malloc(n);
	int status;

	memcpy(copy, text, n);
	status = head_parse(copy, n, h, &why);
	assert_true(status == 0 || why != NULL);
	free(copy);
	return status;
}

static void
head_finds_the_fields_it_knows(void **state)
{
	static const char text[] =
	    "POST /a?b HTTP/1.1\r\nHOST: h\r\nx-api-key:\t k \r\nOther: x\r\n"
	    "Content-Length: 007\r\nConnection: x, CLOSE\r\n\r\n";
	struct head h;
	const char *why;

	(void)state;
	assert_int_equal(head_parse(text, sizeof(text) - 1, &h, &why), 0);
	assert_int_equal(h.method, METHOD_POST);
	assert_int_equal(h.length, 7);
	assert_true(h.close);
	assert_true(slice_is(h.target, "/a?b"));
	assert_true(slice_is(h.field[FIELD_HOST], "h"));
	assert_true(slice_is(h.field[FIELD_API_KEY], "k"));
	assert_null(h.field[FIELD_ORIGIN].p);
}

/* Whatever byte is changed to whatever other, the parser answers within the bytes. */
static void
no_single_byte_makes_the_head_parser_stumble(void **state)
{
	static const char text[] = "PUT /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: "
				   "chunked\r\nExpect: 100-continue\r\n\r\n";
	char copy[sizeof(text)];
	struct head h;
	size_t i;
	int ch;

	(void)state;
	for (i = 0; i < sizeof(text) - 1; i++) {
		for (ch = 0; ch < 256; ch++) {
			memcpy(copy, text, sizeof(text));
			copy[i] = (char)ch;
			status_of(copy, sizeof(text) - 1, &h);
		}
		assert_int_not_equal(status_of(text, i, &h), 0);
	}
}

static void
tokens_of_a_list_are_whole_words(void **state)
{
	(void)state;
	assert_true(head_has_token(slice("a, Close"), "close"));
	assert_false(head_has_token(slice("closed, enclose"), "close"));
	assert_false(head_has_token((struct slice){NULL, 0}, "close"));
	assert_false(head_has_token(slice(""), "close"));
}

/* Feeds the bytes one at a time; returns the last step, and the data. */
static enum chunk_step
feed(const char *p, size_t n, char *out, size_t *len)
{
	enum chunk_step step = STEP_MORE;
	struct chunk c = {0};
	size_t at = 0, have = 0, used;

	*len = 0;
	while (have <= n && step != STEP_OVER && step != STEP_BAD) {
		step = chunk_step(&c, p + at, have - at, &used);
		if (step == STEP_DATA) {
			memcpy(out + *len, p + at, used);
			*len += used;
		}
		at += used;
		if (step == STEP_MORE)
			have++;
	}
	return step;
}

static void
chunks_are_joined_and_trailers_dropped(void **state)
{
	static const char text[] = "3;x=y\r\nabc\r\n00B\r\nhello world\r\n0\r\nT: x\r\n\r\n";
	char out[sizeof(text)];
	size_t n;

	(void)state;
	assert_int_equal(feed(text, sizeof(text) - 1, out, &n), STEP_OVER);
	assert_int_equal(n, 14);
	assert_memory_equal(out, "abchello world", 14);
}

static void
malformed_chunks_are_refused(void **state)
{
	static const char *const bad[] = {"x\r\n", "\r\n", " 3\r\n", "3 \r\n", "0x3\r\n", "-3\r\n",
	    "123456789abc\r\n", "3\r\nabcd", "3\r\nabc\n", "3\na\r\n", "3;\x01\r\n",
	    "0\r\na\x7f\r\n"};
	char out[64], line[CHUNK_LINE_MAX + 8];
	size_t i, n;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(feed(bad[i], strlen(bad[i]), out, &n), STEP_BAD);
	memset(line, 'a', sizeof(line));
	memcpy(line, "1;", 2);
	assert_int_equal(feed(line, sizeof(line), out, &n), STEP_BAD);
}

static void
a_query_gives_each_parameter_once(void **state)
{
	char v[TARGET_MAX + 1];
	size_t n;

	(void)state;
	assert_int_equal(query_get(slice("a=1&path=x+y%2Bz&b"), "path", v, &n), QUERY_GIVEN);
	assert_string_equal(v, "x y+z");
	assert_int_equal(query_get(slice("a=1&b"), "b", v, &n), QUERY_GIVEN);
	assert_int_equal(n, 0);
	assert_int_equal(query_get(slice("%61=1"), "a", v, &n), QUERY_GIVEN);
	assert_int_equal(query_get(slice("a=1&a=1"), "a", v, &n), QUERY_BAD);
	assert_int_equal(query_get(slice("a=%4"), "a", v, &n), QUERY_BAD);
	assert_int_equal(query_get(slice("ab=1"), "a", v, &n), QUERY_NONE);
	assert_int_equal(query_get((struct slice){NULL, 0}, "a", v, &n), QUERY_NONE);
}

static void
a_path_stays_below_the_root(void **state)
{
	static const char *const pairs[][2] = {{"a", "/workspace/a"}, {"/", "/"}, {"../../..", "/"},
	    {"/a/../../b", "/b"}, {"a//./b/", "/workspace/a/b"}, {"..x/...", "/workspace/..x/..."}};
	char out[FILE_PATH_MAX + 1], *longest;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		assert_null(path_normalise(pairs[i][0], strlen(pairs[i][0]), out));
		assert_string_equal(out, pairs[i][1]);
	}
	assert_non_null(path_normalise("", 0, out));
	assert_non_null(path_normalise("a\0b", 3, out));
	longest = malloc(FILE_PATH_MAX + 1);
	memset(longest, 'a', FILE_PATH_MAX + 1);
	longest[0] = '/';
	assert_null(path_normalise(longest, FILE_PATH_MAX, out));
	assert_non_null(path_normalise(longest, FILE_PATH_MAX + 1, out));
	free(longest);
}

static void
a_range_is_one_or_ignored(void **state)
{
	struct range r;

	(void)state;
	assert_int_equal(range_parse(slice("bytes=1-2"), &r), 0);
	assert_int_equal(r.kind, RANGE_BETWEEN);
	assert_int_equal(range_parse(slice("BYTES=7-"), &r), 0);
	assert_int_equal(r.kind, RANGE_FROM);
	assert_int_equal(range_parse(slice("bytes=-99999999999999999999"), &r), 0);
	assert_int_equal(r.kind, RANGE_SUFFIX);
	assert_int_equal(r.first, INT64_MAX);
	assert_int_equal(range_parse(slice("bytes=1-2,3-4"), &r), -1);
	assert_int_equal(range_parse(slice("bytes=2-1"), &r), -1);
	assert_int_equal(range_parse(slice("bytes="), &r), -1);
	assert_int_equal(range_parse((struct slice){NULL, 0}, &r), -1);
}

static void
the_same_key_has_one_digest_in_each_header(void **state)
{
	struct head h = {0};
	uint8_t want[32], got[32];

	(void)state;
	sha256("0123456789abcdef", 16, want);
	h.field[FIELD_AUTHORIZATION] = slice("bEARER  0123456789abcdef");
	assert_true(auth_key(&h, got));
	assert_memory_equal(got, want, 32);
	h.field[FIELD_AUTHORIZATION] = slice("Basic eDowMTIzNDU2Nzg5YWJjZGVm");
	h.field[FIELD_API_KEY] = slice("0123456789abcdef");
	memset(got, 0, 32);
	assert_true(auth_key(&h, got));
	assert_memory_equal(got, want, 32);
	h.field[FIELD_API_KEY] = slice("0123456789abcdeF");
	assert_false(auth_key(&h, got));
}

static void
loopback_addresses_are_known(void **state)
{
	(void)state;
	assert_true(browser_is_loopback("127.0.0.1") && browser_is_loopback("127.9.9.9"));
	assert_true(browser_is_loopback("::1") && browser_is_loopback("localhost"));
	assert_true(browser_is_loopback("::ffff:127.0.0.1"));
	assert_false(browser_is_loopback("::ffff:192.0.2.127"));
	assert_false(browser_is_loopback("0.0.0.0") || browser_is_loopback("::") ||
		     browser_is_loopback("192.0.2.1"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(head_finds_the_fields_it_knows),
	    cmocka_unit_test(no_single_byte_makes_the_head_parser_stumble),
	    cmocka_unit_test(tokens_of_a_list_are_whole_words),
	    cmocka_unit_test(chunks_are_joined_and_trailers_dropped),
	    cmocka_unit_test(malformed_chunks_are_refused),
	    cmocka_unit_test(a_query_gives_each_parameter_once),
	    cmocka_unit_test(a_path_stays_below_the_root),
	    cmocka_unit_test(a_range_is_one_or_ignored),
	    cmocka_unit_test(the_same_key_has_one_digest_in_each_header),
	    cmocka_unit_test(loopback_addresses_are_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
