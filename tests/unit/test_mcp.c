// link: clients/mcp/args.o clients/mcp/cut.o
// link: clients/mcp/rpc.o clients/mcp/tools.o clients/mcp/uri.o clients/mcp/version.o
// link: clients/api/text.o -ljansson
/* The pure parts of the MCP server: messages, arguments, names of files, long output. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "clients/api/text.h"
#include "clients/mcp/cut.h"
#include "clients/mcp/rpc.h"
#include "clients/mcp/tools.h"
#include "clients/mcp/uri.h"

static void
messages_are_what_they_are(void **state)
{
	static const struct {
		const char *text;
		enum rpc_kind kind;
		int code, has_id, has_params, has_meta;
	} rows[] = {
	    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"}", RPC_REQUEST, 0, 1, 0, 0},
	    {"{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"m\",\"params\":{\"_meta\":{}}}",
		RPC_REQUEST, 0, 1, 1, 1},
	    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":null}", RPC_REQUEST, 0, 1,
		0, 0},
	    {"{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"params\":{}}", RPC_NOTIFICATION, 0, 0, 1, 0},
	    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", RPC_ANSWER, 0, 1, 0, 0},
	    {"{\"jsonrpc\":\"2.0\",\"id\":1}", RPC_WRONG, RPC_INVALID_REQUEST, 1, 0, 0},
	    {"{\"jsonrpc\":\"2.0\",\"id\":[],\"method\":\"m\"}", RPC_WRONG, RPC_INVALID_REQUEST, 0,
		0, 0},
	    {"{\"jsonrpc\":2.0,\"id\":1,\"method\":\"m\"}", RPC_WRONG, RPC_INVALID_REQUEST, 1, 0,
		0},
	    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":7}", RPC_WRONG,
		RPC_INVALID_PARAMS, 1, 0, 0},
	    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":{\"_meta\":[]}}", RPC_WRONG,
		RPC_INVALID_PARAMS, 1, 1, 0},
	    {"7", RPC_WRONG, RPC_INVALID_REQUEST, 0, 0, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_t *j = json_loads(rows[i].text, JSON_DECODE_ANY, NULL);
		struct rpc r;

		assert_non_null(j);
		rpc_read(j, &r);
		assert_int_equal(r.kind, rows[i].kind);
		assert_int_equal(r.code, rows[i].code);
		assert_int_equal(r.id != NULL, rows[i].has_id);
		assert_int_equal(r.params != NULL, rows[i].has_params);
		assert_int_equal(r.meta != NULL, rows[i].has_meta);
		json_decref(j);
	}
}

static void
every_tool_is_found_and_described(void **state)
{
	(void)state;
	for (int v = 0; v < V_COUNT; v++) {
		json_t *list = tools_list((enum version)v);

		assert_int_equal(json_array_size(list), TOOL_COUNT);
		json_decref(list);
	}
	for (int i = 0; i < TOOL_COUNT; i++) {
		assert_int_equal(tools[i].id, i);
		assert_ptr_equal(tool_find(tools[i].name), &tools[i]);
	}
	assert_null(tool_find("sandbox_"));
	assert_null(tool_find(""));
}

static void
arguments_are_checked_and_made_uniform(void **state)
{
	static const struct {
		const char *tool, *args, *want; /* want: JSON, or what is wrong */
	} rows[] = {
	    {"sandbox_create", "{}", "{}"},
	    {"sandbox_create", "{\"image\":null,\"timeout_seconds\":60.0,\"cpus\":1}",
		"{\"cpus\": 1, \"timeout_seconds\": 60}"},
	    {"sandbox_create", "{\"timeout_seconds\":0}", "timeout_seconds: "},
	    {"sandbox_create", "{\"timeout_seconds\":9007199254740993000}", "timeout_seconds: "},
	    {"sandbox_create", "{\"timeout_seconds\":true}", "timeout_seconds: "},
	    {"sandbox_create", "{\"cpus\":-0.5}", "cpus: must be above 0"},
	    {"sandbox_create", "{\"x\\u001b[0m\":1}", "x?[0m: sandbox_create has no such"},
	    {"sandbox_destroy", "{\"sandbox_id\":\"sb_1\"}", "{\"sandbox_id\": \"sb_1\"}"},
	    {"sandbox_destroy", "{\"sandbox_id\":null}", "sandbox_id: is missing"},
	    {"sandbox_destroy", "{\"sandbox_id\":\"a/b\"}", "sandbox_id: \"a/b\" is not an id"},
	    {"sandbox_destroy", "{\"sandbox_id\":\"a\\u0000\"}", "sandbox_id: must not contain"},
	    {"sandbox_exec", "{\"sandbox_id\":\"s\",\"command\":\"a\\u0000\"}",
		"{\"command\": \"a\\u0000\", \"sandbox_id\": \"s\"}"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_t *args = json_loads(rows[i].args, JSON_ALLOW_NUL, NULL), *got;
		char why[TOOL_WHY_MAX], *text;

		assert_non_null(args);
		got = tool_args(tool_find(rows[i].tool), args, why);
		if (rows[i].want[0] == '{') {
			text = json_dumps(got, JSON_SORT_KEYS);
			assert_string_equal(text, rows[i].want);
			free(text);
		} else {
			assert_null(got);
			assert_ptr_equal(strstr(why, rows[i].want), why);
		}
		json_decref(got);
		json_decref(args);
	}
	assert_null(tool_args(tool_find("sandbox_destroy"), NULL, (char[TOOL_WHY_MAX]){0}));
}

static void
names_of_files_go_both_ways(void **state)
{
	static const char *const good[][3] = {
	    {"sandbox://sb_1/workspace/a.txt", "sb_1", "/workspace/a.txt"},
	    {"SANDBOX://sb_1/", "sb_1", "/"},
	    {"sandbox://sb_1/a%20b/%C3%BC%25", "sb_1", "/a b/\xc3\xbc%"},
	    {"sandbox://sb_1/%3f%23", "sb_1", "/?#"},
	};
	static const char *const bad[] = {"", "sandbox://", "sandbox:///x", "sandbox://sb_1",
	    "sandbox://sb.1/x", "sandbox://../x", "sandbox://sb_1/%", "sandbox://sb_1/%4",
	    "sandbox://sb_1/%zz", "sandbox://sb_1/a%00b", "sandbox://sb_1/a?b", "sandbox://sb_1/#",
	    "file:///x",
	    "sandbox://aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffgggggggggg/x"};
	struct uri uri;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		char *back;

		assert_int_equal(uri_read(good[i][0], &uri), 0);
		assert_string_equal(uri.id, good[i][1]);
		assert_string_equal(uri.path, good[i][2]);
		back = uri_write(uri.id, uri.path);
		assert_int_equal(uri_read(back, &uri), 0);
		assert_string_equal(uri.path, good[i][2]);
		free(back);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(uri_read(bad[i], &uri), -1);
}

static int
is_utf8(const char *p, size_t n)
{
	uint32_t ch;
	size_t len;

	for (size_t i = 0; i < n; i += len)
		if ((len = text_char(p + i, n - i, &ch)) == 1 && ch == 0xfffd)
			return 0;
	return 1;
}

static void
short_output_comes_whole(void **state)
{
	(void)state;
	for (size_t size = 0; size <= 1000; size += 7) {
		char *in = malloc(size + 1), *out;
		struct cut c;
		uint64_t omitted;
		size_t n;

		memset(in, 'a', size);
		cut_init(&c, 1000);
		for (size_t i = 0; i < size; i++)
			cut_add(&c, in + i, 1);
		out = cut_text(&c, 1000, &n, &omitted);
		assert_int_equal(n, size);
		assert_memory_equal(out, in, size);
		assert_int_equal(omitted, 0);
		free(out);
		free(in);
		cut_free(&c);
	}
}

/* Output of n pieces, in pieces of a size each; checked for all budgets. */
static void
check_cut(const char *unit, int units, size_t step)
{
	size_t one = strlen(unit), size = one * (size_t)units, n;
	char *in = malloc(size), *out, *note;
	uint64_t omitted;
	struct cut c;

	for (int i = 0; i < units; i++)
		memcpy(in + (size_t)i * one, unit, one);
	cut_init(&c, 4000);
	for (size_t i = 0; i < size; i += step)
		cut_add(&c, in + i, size - i < step ? size - i : step);
	for (size_t budget = 250; budget <= 4000; budget += 50) {
		out = cut_text(&c, budget, &n, &omitted);
		assert_true(n <= budget);
		assert_true(is_utf8(out, n));
		note = strstr(out, "[... ");
		assert_int_equal(note != NULL, omitted > 0);
		if (omitted > 0)
			assert_int_equal(strtoull(note + 5, NULL, 10), omitted);
		assert_true(omitted <= size && (size <= budget || omitted > 0));
		free(out);
	}
	cut_free(&c);
	free(in);
}

static void
long_output_fits_and_is_always_utf8(void **state)
{
	static const char *const units[] = {"a", "line\n", "\xc3\xbc", "\xe2\x82\xac",
	    "\xf0\x9f\x98\x80", "x\xf0\x9f\x98\x80\n", "\xff", "a\xff\n", "\xe2\x82"};

	(void)state;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		for (int many = 100; many < 20000; many = many * 3 + 1)
			for (size_t step = 1; step < 9000; step = step * 7 + 1)
				check_cut(units[i], many, step);
}

static void
memory_of_long_output_is_bounded(void **state)
{
	char piece[100000];
	struct cut c;

	(void)state;
	memset(piece, 'x', sizeof(piece));
	cut_init(&c, 10000);
	for (size_t i = 1; i < 3000; i++)
		cut_add(&c, piece, i * 33 % sizeof(piece));
	assert_true(c.head_room + c.tail_room <= 40000);
	cut_free(&c);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(messages_are_what_they_are),
	    cmocka_unit_test(every_tool_is_found_and_described),
	    cmocka_unit_test(arguments_are_checked_and_made_uniform),
	    cmocka_unit_test(names_of_files_go_both_ways),
	    cmocka_unit_test(short_output_comes_whole),
	    cmocka_unit_test(long_output_fits_and_is_always_utf8),
	    cmocka_unit_test(memory_of_long_output_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
