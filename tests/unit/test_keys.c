/* managerd's keys: only the digest of a key that is configured, not expired and at its place opens;
 * buckets hold, and take no more room. */
// link: managerd/keys.o managerd/rate.o managerd/tenant.o managerd/idem.o -ljansson -lcrypto
// link: common/keys_file.o common/keys_line.o common/keys_net.o
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <openssl/sha.h>

#include "common/ids.h"
#include "managerd/idem.h"
#include "managerd/keys.h"
#include "managerd/rate.h"
#include "managerd/tenant.h"
#include "proto/apid_managerd.h"

#define NOW 1800000000 /* 2027-01-15 */

static struct m_ask
asking(const char *key)
{
	struct m_ask ask = {.has_key = key != NULL, .addr = {[10] = 0xff, 0xff, 192, 0, 2, 1}};

	if (key != NULL)
		SHA256((const unsigned char *)key, strlen(key), ask.key);
	return ask;
}

/* The name of the key that opens, or why none does. */
static const char *
check(const struct m_ask *ask)
{
	const struct key *key;
	enum keys_verdict verdict = keys_check(ask, NOW, &key);

	return verdict == KEYS_GOOD ? key->k.name : keys_verdict_text(verdict);
}

static const char *
check_key(const char *key)
{
	struct m_ask ask = asking(key);

	return check(&ask);
}

/* A line of the key file. */
static const char *
line(const char *name, const char *key, const char *more)
{
	static char text[8][1024];
	static int n;
	uint8_t digest[32];
	char hex[65], *out = text[n++ % 8];

	SHA256((const unsigned char *)key, strlen(key), digest);
	hex_encode(digest, sizeof(digest), hex);
	snprintf(out, 1024, "{\"name\":\"%s\",\"digest\":\"%s\"%s}\n", name, hex, more);
	return out;
}

/* Reads lines as the file; NULL ends. Returns what is wrong with it. */
static const char *
file(const char *one, ...)
{
	static char why[512];
	char text[8192] = "";
	va_list ap;

	va_start(ap, one);
	for (; one != NULL; one = va_arg(ap, const char *))
		strcat(text, one);
	va_end(ap);
	why[0] = '\0';
	keys_replace(text, strlen(text), why, sizeof(why));
	return why;
}

static void
every_configured_key_opens_and_no_other(void **state)
{
	struct m_ask zero = {.has_key = 1}, none;

	(void)state;
	assert_int_equal(keys_load(" first-key-aaaaaaaaaaaa , second-key-bbbbbbbbbbbb,,"), 0);
	assert_int_equal(keys_count(), 2);
	assert_string_equal(check_key("first-key-aaaaaaaaaaaa"), "key1");
	assert_string_equal(check_key("second-key-bbbbbbbbbbbb"), "key2");
	assert_string_equal(check_key("first-key-aaaaaaaaaaa"), "unknown key");
	assert_string_equal(check_key("first-key-aaaaaaaaaaaa "), "unknown key");
	assert_string_equal(check_key(""), "unknown key");
	assert_string_equal(check_key(NULL), "no key");
	assert_string_equal(check(&zero), "unknown key");
	none = asking("first-key-aaaaaaaaaaaa");
	none.has_key = 0;
	assert_string_equal(check(&none), "no key");
}

static void
short_keys_and_too_many_are_refused(void **state)
{
	char *many = calloc(KEYS_MAX + 1, 18);
	int i;

	(void)state;
	assert_int_equal(keys_load("short"), -1);
	for (i = 0; i < KEYS_MAX + 1; i++)
		strcat(many + i * 17, "0123456789abcdef,");
	assert_int_equal(keys_load(many), -1);
	free(many);
}

static void
keys_of_the_file_open_until_they_expire_and_from_their_addresses(void **state)
{
	struct m_ask ask = asking("near");

	(void)state;
	assert_string_equal(file(line("ci", "plain", ",\"tenant\":\"acme\""),
				line("old", "old", ",\"expires\":\"2026-01-01T00:00:00Z\""),
				line("new", "new", ",\"expires\":\"2036-01-01T00:00:00Z\""),
				line("far", "far", ",\"from\":[\"198.51.100.0/24\"]"),
				line("near", "near", ",\"from\":[\"192.0.2.0/24\"]"), NULL),
	    "");
	assert_string_equal(check_key("plain"), "ci");
	assert_string_equal(check_key("old"), "expired key");
	assert_string_equal(check_key("new"), "new");
	assert_string_equal(check_key("far"), "address not allowed");
	assert_string_equal(check_key("near"), "near");
	memset(ask.addr, 0, sizeof(ask.addr));
	assert_string_equal(check(&ask), "address not allowed");
	assert_string_equal(check_key("first-key-aaaaaaaaaaaa"), "key1");
	assert_true(keys_next_expiry(NOW) > NOW);
	assert_int_equal(keys_next_expiry(3000000000), KEYS_NEVER);
}

static void
file_that_is_wrong_changes_nothing(void **state)
{
	(void)state;
	file(line("ci", "plain", ""), NULL);
	assert_string_equal(
	    file(line("ci", "fresh", ""), "{", NULL), "line 2: is not a JSON object");
	assert_string_equal(check_key("plain"), "ci");
	assert_string_equal(check_key("fresh"), "unknown key");
	assert_string_equal(file(line("key1", "fresh", ""), NULL),
	    "line 1: key1 is the name of a key in AGENT_SANDBOX_API_KEYS");
	assert_string_equal(file(line("x", "first-key-aaaaaaaaaaaa", ""), NULL),
	    "line 1: x has the digest of a key in AGENT_SANDBOX_API_KEYS");
	assert_string_equal(check_key("plain"), "ci");
}

static void
key_that_is_gone_is_revoked_and_one_that_stays_is_the_same(void **state)
{
	static const uint8_t addr[16];
	struct m_ask ask = asking("stays");
	const struct key *key;
	uint32_t serial;

	(void)state;
	file(line("ci", "goes", ""), line("ops", "stays", ",\"scopes\":[\"read\",\"exec\"]"), NULL);
	keys_check(&ask, NOW, &key);
	serial = key->serial;
	assert_true(keys_still(serial, addr, SCOPE_EXEC, NOW));
	file(line("ops", "stays", ",\"scopes\":[\"read\"]"), NULL);
	assert_string_equal(check_key("goes"), "revoked key");
	keys_check(&ask, NOW, &key);
	assert_int_equal(key->serial, serial);
	assert_true(keys_still(serial, addr, SCOPE_READ, NOW));
	assert_false(keys_still(serial, addr, SCOPE_EXEC, NOW));
	file(line("ops", "another", ""), NULL);
	assert_false(keys_still(serial, addr, SCOPE_READ, NOW));
	file(line("ops", "another", ",\"tenant\":\"acme\""), NULL);
	ask = asking("another");
	keys_check(&ask, NOW, &key);
	assert_ptr_equal(key->tenant, tenant_get("acme"));
}

static void
admin_stands_for_every_scope_and_others_for_themselves(void **state)
{
	struct m_ask ask = asking("root");
	const struct key *key;

	(void)state;
	file(line("root", "root", ",\"scopes\":[\"admin\"]"), NULL);
	keys_check(&ask, NOW, &key);
	assert_int_equal(key->scopes, KEYS_SCOPES_ALL);
	ask = asking("first-key-aaaaaaaaaaaa");
	keys_check(&ask, NOW, &key);
	assert_int_equal(key->scopes, KEYS_SCOPES_DEFAULT);
	assert_ptr_equal(key->tenant, tenant_default());
}

static void
quotas_are_those_of_the_last_file(void **state)
{
	(void)state;
	file(line("a", "a", ",\"tenant\":\"t\",\"quotas\":{\"sandboxes\":5,\"cpus\":1.5}"), NULL);
	assert_int_equal(tenant_get("t")->quota[QUOTA_SANDBOXES], 5);
	assert_int_equal(tenant_get("t")->quota[QUOTA_CPUS], 1500000000);
	assert_int_equal(tenant_get("t")->quota[QUOTA_EXECS], KEYS_NO_QUOTA);
	file(line("a", "a", ",\"tenant\":\"t\""), NULL);
	assert_int_equal(tenant_get("t")->quota[QUOTA_SANDBOXES], KEYS_NO_QUOTA);
}

static void
certificate_opens_only_without_a_key(void **state)
{
	struct m_ask ask = asking(NULL);

	(void)state;
	file("{\"name\":\"bot\",\"digest\":null,\"certificate\":\"bot.example\"}\n", NULL);
	strcpy(ask.subject, "bot.example");
	assert_string_equal(check(&ask), "bot");
	strcpy(ask.subject, "bot.exampl");
	assert_string_equal(check(&ask), "unknown certificate");
	ask = asking("whatever");
	strcpy(ask.subject, "bot.example");
	assert_string_equal(check(&ask), "unknown key");
}

static void
a_thousand_keys_are_each_found(void **state)
{
	char *text = calloc(1024, 128), name[32], key[32];
	size_t n = 0;
	int i;

	(void)state;
	for (i = 0; i < 1022; i++) {
		snprintf(name, sizeof(name), "k%d", i);
		snprintf(key, sizeof(key), "secret-%d", i);
		n += strlen(strcpy(text + n, line(name, key, "")));
	}
	assert_int_equal(keys_replace(text, n, name, sizeof(name)), 0);
	for (i = 0; i < 1022; i++) {
		snprintf(name, sizeof(name), "k%d", i);
		snprintf(key, sizeof(key), "secret-%d", i);
		assert_string_equal(check_key(key), name);
	}
	free(text);
}

static void
bucket_lets_its_burst_through_and_then_its_rate(void **state)
{
	int64_t level = 0, now = 1000000000, wait;
	int i, taken = 0;

	(void)state;
	for (i = 0; i < 100; i++)
		taken += rate_take(&level, 100000, 2000000, now) == 0;
	assert_int_equal(taken, 20);
	wait = rate_take(&level, 100000, 2000000, now);
	assert_int_equal(wait, 100000);
	assert_int_not_equal(rate_take(&level, 100000, 2000000, now + wait - 1), 0);
	assert_int_equal(rate_take(&level, 100000, 2000000, now + wait), 0);
	for (taken = i = 0; i < 100000; i++)
		taken += rate_take(&level, 100000, 2000000, now + 100000 + i * 100) == 0;
	assert_in_range(taken, 99, 101);
	assert_int_equal(rate_seconds(1), 1);
	assert_int_equal(rate_seconds(1000001), 2);
}

static void
address(uint8_t addr[16], uint32_t n)
{
	static const uint8_t mapped[16] = {[10] = 0xff, 0xff};

	memcpy(addr, mapped, 16);
	memcpy(addr + 12, &n, 4);
}

static void
each_address_has_its_own_bucket_and_a_network_of_ipv6_one(void **state)
{
	struct strangers *s = calloc(1, sizeof(*s));
	uint8_t a[16], b[16], six[16] = {0x20, 0x01, 0x0d, 0xb8, [15] = 1};
	int i;

	(void)state;
	s->secret[0] = s->secret[1] = 0x9e3779b97f4a7c15;
	address(a, 1);
	address(b, 2);
	for (i = 0; i < 30; i++)
		assert_int_equal(strangers_take(s, a, 30, 1000), 0);
	assert_int_not_equal(strangers_take(s, a, 30, 1000), 0);
	assert_int_equal(strangers_take(s, b, 30, 1000), 0);
	assert_int_equal(strangers_take(s, a, 30, 1000 + 2000000), 0);
	for (i = 0; i < 30; i++, six[15]++)
		assert_int_equal(strangers_take(s, six, 30, 1000), 0);
	assert_int_not_equal(strangers_take(s, six, 30, 1000), 0);
	six[7]++;
	assert_int_equal(strangers_take(s, six, 30, 1000), 0);
	free(s);
}

static void
flood_of_addresses_frees_nobody(void **state)
{
	struct strangers *s = calloc(1, sizeof(*s));
	uint8_t a[16], b[16];
	uint32_t i;

	(void)state;
	s->secret[0] = s->secret[1] = 0x9e3779b97f4a7c15;
	address(a, 1);
	for (i = 0; i < 40; i++)
		strangers_take(s, a, 30, 1000);
	for (i = 2; i < 1000000; i++) {
		address(b, i);
		strangers_take(s, b, 30, 1000);
	}
	assert_int_not_equal(strangers_take(s, a, 30, 1000), 0);
	free(s);
}

static void
no_auth_lets_anyone_in(void **state)
{
	(void)state;
	keys_open();
	assert_string_equal(check_key("x"), "");
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
	/* In this order: one table of keys is used by all. */
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_configured_key_opens_and_no_other),
	    cmocka_unit_test(keys_of_the_file_open_until_they_expire_and_from_their_addresses),
	    cmocka_unit_test(file_that_is_wrong_changes_nothing),
	    cmocka_unit_test(key_that_is_gone_is_revoked_and_one_that_stays_is_the_same),
	    cmocka_unit_test(admin_stands_for_every_scope_and_others_for_themselves),
	    cmocka_unit_test(quotas_are_those_of_the_last_file),
	    cmocka_unit_test(certificate_opens_only_without_a_key),
	    cmocka_unit_test(a_thousand_keys_are_each_found),
	    cmocka_unit_test(short_keys_and_too_many_are_refused),
	    cmocka_unit_test(no_auth_lets_anyone_in),
	    cmocka_unit_test(bucket_lets_its_burst_through_and_then_its_rate),
	    cmocka_unit_test(each_address_has_its_own_bucket_and_a_network_of_ipv6_one),
	    cmocka_unit_test(flood_of_addresses_frees_nobody),
	    cmocka_unit_test(same_idempotency_key_and_body_within_a_day_is_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
