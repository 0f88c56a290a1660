/* Whoever sent a message that cannot be read gets the answer by its id, if it has just one. */
// link: clients/mcp/salvage.o -ljansson
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "clients/mcp/salvage.h"

static void
id_is_found_where_it_is_one_and_nowhere_else(void **state)
{
	static const struct {
		const char *line, *id; /* NULL: none */
	} rows[] = {
	    {"{\"id\":7}", "7"},
	    {" { \"a\" : [ {\"id\":1} ] , \"id\" : \"x\\\"y\" , \"n\" : 1e999 } \r", "\"x\\\"y\""},
	    {"{\"method\":\"id\",\"id\":-3,\"n\":99999999999999999999}", "-3"},
	    {"{\"a\":\"{\\\"id\\\":1\",\"id\":2}", "2"},
	    {"{\"a\":{\"a\":1,\"a\":2},\"id\":0}", "0"},
	    {"{\"id\":1,\"id\":2}", NULL},
	    {"{\"id\":99999999999999999999}", NULL},
	    {"{\"id\":1.5}", NULL},
	    {"{\"id\":null}", NULL},
	    {"{\"id\":{\"id\":1}}", NULL},
	    {"[{\"id\":1}]", NULL},
	    {"{\"id\":1", NULL},
	    {"{\"id\":1}}", NULL},
	    {"{\"id\":1} {\"id\":2}", NULL},
	    {"{\"id\"", NULL},
	    {"{\"id\":", NULL},
	    {"{\"id\":\"", NULL},
	    {"{\"id\":\"\\", NULL},
	    {"{\"id\":1,\"a\":\"}", NULL},
	    {"\"id\":1}", NULL},
	    {"}", NULL},
	    {"", NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		size_t n = strlen(rows[i].line);
		char *p = malloc(n + (n == 0)), *text; /* exactly so much, for the sanitizer */
		json_t *id;

		memcpy(p, rows[i].line, n);
		id = salvage_id(p, n);
		text = id != NULL ? json_dumps(id, JSON_ENCODE_ANY) : NULL;
		if (rows[i].id != NULL) {
			assert_non_null(text);
			assert_string_equal(text, rows[i].id);
		} else {
			assert_null(text);
		}
		free(text);
		json_decref(id);
		free(p);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(id_is_found_where_it_is_one_and_nowhere_else)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
