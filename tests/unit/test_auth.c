/* managerd's keys: only the digest of a configured key opens. */
// link: managerd/auth.o managerd/idem.o -lcrypto
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <openssl/sha.h>

#include "managerd/auth.h"
#include "managerd/idem.h"

static int
check(const struct auth *auth, const char *key)
{
	uint8_t digest[32];

	SHA256((const unsigned char *)key, strlen(key), digest);
	return auth_check(auth, 1, digest);
}

static void
every_configured_key_opens_and_no_other(void **state)
{
	struct auth auth = {0};
	uint8_t zero[32] = {0};

	(void)state;
	assert_int_equal(
	    auth_load(&auth, " first-key-aaaaaaaaaaaa , second-key-bbbbbbbbbbbb,,"), 0);
	assert_int_equal(auth.count, 2);
	assert_int_equal(check(&auth, "first-key-aaaaaaaaaaaa"), 0);
	assert_int_equal(check(&auth, "second-key-bbbbbbbbbbbb"), 1);
	assert_int_equal(check(&auth, "first-key-aaaaaaaaaaa"), -1);
	assert_int_equal(check(&auth, "first-key-aaaaaaaaaaaa "), -1);
	assert_int_equal(check(&auth, ""), -1);
	assert_int_equal(auth_check(&auth, 1, zero), -1);
	assert_int_equal(auth_check(&auth, 0, auth.digests[0]), -1);
}

static void
keys_themselves_are_not_kept(void **state)
{
	struct auth auth = {0};

	(void)state;
	assert_int_equal(auth_load(&auth, "first-key-aaaaaaaaaaaa"), 0);
	assert_null(memmem(&auth, sizeof(auth), "first-key", 9));
}

static void
short_keys_and_too_many_are_refused(void **state)
{
	struct auth auth = {0};
	char *many = calloc(AUTH_KEYS_MAX + 1, 18);
	int i;

	(void)state;
	assert_int_equal(auth_load(&auth, "first-key-aaaaaaaaaaaa,short"), -1);
	for (i = 0; i < AUTH_KEYS_MAX + 1; i++)
		strcat(many + i * 17, "0123456789abcdef,");
	auth.count = 0;
	assert_int_equal(auth_load(&auth, many), -1);
	free(many);
}

static void
no_auth_lets_anyone_in(void **state)
{
	struct auth auth = {.open = 1};

	(void)state;
	assert_int_equal(check(&auth, "x"), AUTH_ANYONE);
}

static void
same_idempotency_key_and_body_within_a_day_is_the_same(void **state)
{
	struct idem a = {.given = 1, .at_us = 1000}, b = a, none = {0};

	(void)state;
	memset(a.key, 1, 32);
	memset(a.body, 2, 32);
	b = a;
	b.at_us += IDEM_TIME_US;
	assert_int_equal(idem_judge(&a, &b), IDEM_SAME);
	b.body[31] ^= 1;
	assert_int_equal(idem_judge(&a, &b), IDEM_CONFLICT);
	b.at_us++;
	assert_int_equal(idem_judge(&a, &b), IDEM_OTHER);
	b = a;
	b.key[0] ^= 1;
	assert_int_equal(idem_judge(&a, &b), IDEM_OTHER);
	assert_int_equal(idem_judge(&none, &a), IDEM_OTHER);
	assert_int_equal(idem_judge(&a, &none), IDEM_OTHER);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_configured_key_opens_and_no_other),
	    cmocka_unit_test(keys_themselves_are_not_kept),
	    cmocka_unit_test(short_keys_and_too_many_are_refused),
	    cmocka_unit_test(no_auth_lets_anyone_in),
	    cmocka_unit_test(same_idempotency_key_and_body_within_a_day_is_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
