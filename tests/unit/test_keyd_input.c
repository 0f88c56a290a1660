/* What keyd signs, to the byte, and that nothing beside it is signed. */
// link: keyd/input.o
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "keyd/keyd.h"

#define BLANKS "                                                                "
#define SERVER "TLS 1.3, server CertificateVerify"

static uint8_t buf[1024];

static int
is_signed(const uint8_t *p, size_t n)
{
	return input_kind(p, n) != INPUT_NONE;
}

/* The content of a CertificateVerify with this context and a hash of so many bytes. */
static size_t
verify(const char *blanks, const char *context, size_t hash)
{
	size_t a = strlen(blanks), b = strlen(context) + 1;

	memcpy(buf, blanks, a);
	memcpy(buf + a, context, b);
	memset(buf + a + b, 0xab, hash);
	return a + b + hash;
}

/* The content of a ServerKeyExchange: randoms, kind, curve, a length, a point that begins so. */
static size_t
exchange(unsigned kind, unsigned curve, unsigned len, unsigned first, size_t point)
{
	memset(buf, ' ', 64);
	buf[64] = (uint8_t)kind;
	buf[65] = (uint8_t)(curve >> 8);
	buf[66] = (uint8_t)curve;
	buf[67] = (uint8_t)len;
	memset(buf + 68, 0xab, point);
	if (point > 0)
		buf[68] = (uint8_t)first;
	return 68 + point;
}

static void
certificate_verify_of_a_server_is_signed(void **state)
{
	(void)state;
	assert_int_equal(input_kind(buf, verify(BLANKS, SERVER, 32)), INPUT_TLS13);
	assert_int_equal(input_kind(buf, verify(BLANKS, SERVER, 48)), INPUT_TLS13);
}

static void
certificate_verify_of_another_length_or_context_is_not(void **state)
{
	static const char *const contexts[] = {"TLS 1.3, client CertificateVerify",
	    "TLS 1.3, server certificateVerify", "TLS 1.2, server CertificateVerify",
	    "TLS 1.3, server CertificateVerifY", "TLS 1.3, server CertificateVerify ",
	    "TLS 1.3, server CertificateVerif", "DTLS 1.3, server CertificateVerify",
	    "TLS 1.3 server delegated credentials", ""};

	(void)state;
	for (size_t hash = 0; hash < 200; hash++)
		assert_int_equal(
		    is_signed(buf, verify(BLANKS, SERVER, hash)), hash == 32 || hash == 48);
	for (size_t i = 0; i < sizeof(contexts) / sizeof(contexts[0]); i++)
		for (size_t hash = 28; hash <= 64; hash++)
			assert_false(is_signed(buf, verify(BLANKS, contexts[i], hash)));
	assert_false(is_signed(buf, verify(BLANKS + 1, SERVER, 32)));
	assert_false(is_signed(buf, verify(BLANKS + 1, SERVER, 33)));
	assert_false(is_signed(buf, verify(BLANKS " ", SERVER, 32)));
}

static void
every_fixed_byte_of_a_certificate_verify_counts(void **state)
{
	size_t n = verify(BLANKS, SERVER, 32);

	(void)state;
	for (size_t i = 0; i < n; i++) {
		for (unsigned bit = 1; bit < 256; bit <<= 1) {
			buf[i] ^= (uint8_t)bit;
			assert_int_equal(is_signed(buf, n), i >= n - 32);
			buf[i] ^= (uint8_t)bit;
		}
	}
}

static void
key_exchange_with_the_three_curves_is_signed(void **state)
{
	(void)state;
	assert_int_equal(input_kind(buf, exchange(3, 23, 65, 4, 65)), INPUT_TLS12);
	assert_int_equal(input_kind(buf, exchange(3, 24, 97, 4, 97)), INPUT_TLS12);
	for (unsigned first = 0; first < 256; first++)
		assert_int_equal(input_kind(buf, exchange(3, 29, 32, first, 32)), INPUT_TLS12);
}

/* Every kind, every curve's number with every length, every first byte of a point. */
static void
key_exchange_of_any_other_shape_is_not(void **state)
{
	static const struct {
		unsigned curve, len;
	} good[] = {{23, 65}, {24, 97}, {29, 32}};

	(void)state;
	for (unsigned curve = 0; curve < 0x10000; curve += curve < 300 ? 1 : 251)
		for (unsigned len = 0; len < 256; len++) {
			int is_good = 0;

			for (size_t i = 0; i < 3; i++)
				is_good |= curve == good[i].curve && len == good[i].len;
			assert_int_equal(is_signed(buf, exchange(3, curve, len, 4, len)), is_good);
		}
	for (size_t i = 0; i < 3; i++) {
		for (unsigned kind = 0; kind < 256; kind++)
			assert_int_equal(is_signed(buf, exchange(kind, good[i].curve, good[i].len,
							    4, good[i].len)),
			    kind == 3);
		for (size_t n = 0; n < 300; n++)
			assert_int_equal(
			    is_signed(buf, exchange(3, good[i].curve, good[i].len, 4, n)),
			    n == good[i].len);
		for (unsigned first = 0; first < 256; first++)
			assert_int_equal(is_signed(buf, exchange(3, good[i].curve, good[i].len,
							    first, good[i].len)),
			    first == 4 || i == 2);
	}
}

static void
nothing_and_little_is_refused_without_reading_on(void **state)
{
	(void)state;
	for (size_t n = 0; n < 100; n++) {
		uint8_t *exact = malloc(n > 0 ? n : 1); /* a sanitizer guards its end */

		assert_non_null(exact);
		memset(exact, ' ', n);
		assert_false(is_signed(exact, n));
		free(exact);
	}
	memset(buf, 0, sizeof(buf));
	for (size_t n = 0; n <= sizeof(buf); n++)
		assert_false(is_signed(buf, n));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(certificate_verify_of_a_server_is_signed),
	    cmocka_unit_test(certificate_verify_of_another_length_or_context_is_not),
	    cmocka_unit_test(every_fixed_byte_of_a_certificate_verify_counts),
	    cmocka_unit_test(key_exchange_with_the_three_curves_is_signed),
	    cmocka_unit_test(key_exchange_of_any_other_shape_is_not),
	    cmocka_unit_test(nothing_and_little_is_refused_without_reading_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
