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

/* These 48 bytes are the alphabet, in order. */
static void
every_character_stands_for_its_six_bits(void **state)
{
	static const char alphabet[] =
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	uint8_t in[48];
	char text[64], out[48], one[4] = "AAA";
	size_t n;

	(void)state;
	for (unsigned i = 0; i < 16; i++) {
		uint32_t v = (4 * i) << 18 | (4 * i + 1) << 12 | (4 * i + 2) << 6 | (4 * i + 3);

		in[3 * i] = (uint8_t)(v >> 16);
		in[3 * i + 1] = (uint8_t)(v >> 8);
		in[3 * i + 2] = (uint8_t)v;
	}
	assert_int_equal(base64_encode(in, sizeof(in), text), sizeof(text));
	assert_memory_equal(text, alphabet, sizeof(text));
	assert_int_equal(base64_decode(text, sizeof(text), 0, out, &n), 0);
	assert_int_equal(n, sizeof(out));
	assert_memory_equal(out, in, sizeof(out));
	for (int c = 0; c < 256; c++) {
		one[3] = (char)c;
		assert_int_equal(base64_decode(one, 4, 0, out, &n),
		    c == '=' || (c != 0 && strchr(alphabet, c) != NULL) ? 0 : -1);
	}
}

static void
what_is_cut_short_or_padded_twice_is_refused(void **state)
{
	char out[16];
	size_t n;

	(void)state;
	assert_int_equal(base64_decode("AAAAA", 5, 0, out, &n), -1);
	assert_int_equal(base64_decode("A===", 4, 0, out, &n), -1);
	assert_int_equal(base64_decode("AA=A", 4, 0, out, &n), -1);
	assert_int_equal(base64_decode("AA=", 3, 0, out, &n), -1);
	assert_int_equal(base64_decode("AAAAAA==", 8, 0, out, &n), 0);
	assert_int_equal(n, 4);
	assert_int_equal(base64_decode("AAA", 3, 0, out, &n), 0);
	assert_int_equal(n, 2);
	assert_int_equal(base64_decode(&"=="[2], 0, 0, out, &n), 0); /* what stands before it */
	assert_int_equal(n, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(bytes_of_every_length_come_back),
	    cmocka_unit_test(it_knows_its_two_alphabets),
	    cmocka_unit_test(every_character_stands_for_its_six_bits),
	    cmocka_unit_test(what_is_cut_short_or_padded_twice_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
