/* Base64: what it makes of bytes of each length, and what it takes. */
// link: common/base64.o
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/base64.h"

static void
bytes_of_every_length_come_back(void **state)
{
	static const char *const rows[] = {"", "Zg==", "Zm8=", "Zm9v", "Zm9vYg=="};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char text[16], back[16];
		size_t n = base64_encode((const uint8_t *)"foobar", i, text);

		assert_int_equal(n, strlen(rows[i]));
		assert_memory_equal(text, rows[i], n);
		assert_int_equal(base64_decode(text, n, 0, back, &n), 0);
		assert_int_equal(n, i);
		assert_memory_equal(back, "foobar", n);
	}
}

static void
it_knows_its_two_alphabets(void **state)
{
	char out[16];
	size_t n;

	(void)state;
	assert_int_equal(base64_decode("-_-_", 4, 1, out, &n), 0);
	assert_int_equal(base64_decode("-_-_", 4, 0, out, &n), -1);
	assert_int_equal(base64_decode("+/+/", 4, 1, out, &n), -1);
	assert_int_equal(base64_decode("YQ==", 4, 0, out, &n), 0);
	assert_int_equal(n, 1);
	assert_int_equal(base64_decode("YQ", 2, 0, out, &n), 0);
	assert_int_equal(base64_decode("Y", 1, 0, out, &n), -1);
	assert_int_equal(base64_decode("=", 1, 0, out, &n), -1);
	assert_int_equal(base64_decode("====", 4, 0, out, &n), -1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(bytes_of_every_length_come_back),
	    cmocka_unit_test(it_knows_its_two_alphabets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
