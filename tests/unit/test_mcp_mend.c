/* Halves of characters in JSON become U+FFFD; all else stays as it is. */
// link: clients/mcp/mend.o
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "clients/mcp/mend.h"

static void
halves_are_mended_and_nothing_else(void **state)
{
	static const struct {
		const char *from, *to;
		size_t n;
	} rows[] = {
	    {"", "", 0},
	    {"plain \\u00e9 \\n", "plain \\u00e9 \\n", 0},
	    {"\\ud83d\\ude00", "\\ud83d\\ude00", 0},
	    {"\\uD83D\\uDE00", "\\uD83D\\uDE00", 0},
	    {"\\ud83d", "\\ufffd", 1},
	    {"\\uDE00x", "\\ufffdx", 1},
	    {"\\ud83dx\\ude00", "\\ufffdx\\ufffd", 2},
	    {"\\ud83d\\ud83d\\ude00", "\\ufffd\\ud83d\\ude00", 1},
	    {"\\ude00\\ud83d", "\\ufffd\\ufffd", 2},
	    {"\\\\ud83d", "\\\\ud83d", 0}, /* a backslash and letters */
	    {"\\\\\\ud83d", "\\\\\\ufffd", 1},
	    {"\\ud83", "\\ud83", 0},
	    {"\\ud83d\\", "\\ufffd\\", 1},
	    {"\\u", "\\u", 0},
	    {"\\", "\\", 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		size_t n = strlen(rows[i].from);
		char *p = malloc(n + 1); /* exactly so much, for the sanitizer */

		memcpy(p, rows[i].from, n);
		assert_int_equal(mend_halves(p, n), rows[i].n);
		p[n] = '\0';
		assert_string_equal(p, rows[i].to);
		free(p);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(halves_are_mended_and_nothing_else)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
