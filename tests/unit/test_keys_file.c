/* The key file: what a line says, and which files are refused whole, with the line and the reason.
 */
// link: common/keys_file.o common/keys_line.o common/keys_net.o -ljansson
#include "tests/unit/forked.h"

#include <arpa/inet.h>

#include "common/keys_file.h"

#define D1 "1111111111111111111111111111111111111111111111111111111111111111"
#define D2 "2222222222222222222222222222222222222222222222222222222222222222"
#define FIRST "{\"name\":\"a\",\"digest\":\"" D1 "\"}\n"

static char why[256];

static int
parse(const char *text, struct keys_file *file)
{
	why[0] = '\0';
	return keys_file_parse(text, strlen(text), file, why, sizeof(why));
}

static void
a_line_with_everything_is_read(void **state)
{
	const char *text =
	    "{\"name\":\"ci-runner\",\"tenant\":\"acme\",\"digest\":\"" D1 "\","
	    "\"scopes\":[\"exec\",\"admin\"],\"expires\":\"2027-01-31T00:00:00Z\","
	    "\"from\":[\"10.0.0.0/8\",\"2001:db8::/32\",\"192.0.2.7\"],"
	    "\"quotas\":{\"sandboxes\":5,\"cpus\":1.5,\"memory_mb\":4096,"
	    "\"snapshots\":7,\"snapshot_bytes\":1,\"requests_per_second\":50,\"execs\":0},"
	    "\"certificate\":\"ci of Acme\"}";
	char net[KEYS_NET_TEXT], quota[KEYS_QUOTA_TEXT];
	struct keys_file f;

	(void)state;
	assert_int_equal(parse(text, &f), 0);
	assert_int_equal(f.count, 1);
	assert_string_equal(f.keys[0].name, "ci-runner");
	assert_string_equal(f.keys[0].tenant, "acme");
	assert_string_equal(f.keys[0].certificate, "ci of Acme");
	assert_true(f.keys[0].has_digest);
	assert_int_equal(f.keys[0].digest[31], 0x11);
	assert_int_equal(f.keys[0].scopes, SCOPE_EXEC | SCOPE_ADMIN);
	assert_int_equal(f.keys[0].expires_s, 1801353600);
	assert_int_equal(f.keys[0].nfrom, 3);
	assert_string_equal(keys_net_text(net, &f.keys[0].from[0]), "10.0.0.0/8");
	assert_string_equal(keys_net_text(net, &f.keys[0].from[1]), "2001:db8::/32");
	assert_string_equal(keys_net_text(net, &f.keys[0].from[2]), "192.0.2.7/32");
	assert_int_equal(f.keys[0].quota[QUOTA_SANDBOXES], 5);
	assert_int_equal(f.keys[0].quota[QUOTA_CPUS], 1500000000);
	assert_string_equal(keys_quota_text(quota, QUOTA_CPUS, f.keys[0].quota[QUOTA_CPUS]), "1.5");
	assert_int_equal(f.keys[0].quota[QUOTA_MEMORY_MB], 4096);
	assert_int_equal(f.keys[0].quota[QUOTA_SNAPSHOTS], 7);
	assert_int_equal(f.keys[0].quota[QUOTA_SNAPSHOT_BYTES], 1);
	assert_int_equal(f.keys[0].quota[QUOTA_REQUESTS], 50);
	assert_int_equal(f.keys[0].quota[QUOTA_EXECS], 0);
	assert_int_equal(f.keys[0].line, 1);
	keys_file_free(&f);
}

static void
what_a_line_leaves_out_is_tenant_default_four_scopes_and_no_limit(void **state)
{
	struct keys_file f;

	(void)state;
	assert_int_equal(
	    parse("# keys\n\n \t\r\n" FIRST "{\"name\":\"b\",\"digest\":null,\"certificate\":\"b\","
		  "\"expires\":null}",
		&f),
	    0);
	assert_int_equal(f.count, 2);
	assert_int_equal(f.keys[0].line, 4);
	assert_int_equal(f.keys[1].line, 5);
	assert_false(f.keys[1].has_digest);
	for (size_t i = 0; i < f.count; i++) {
		assert_string_equal(f.keys[i].tenant, "default");
		assert_int_equal(
		    f.keys[i].scopes, SCOPE_READ | SCOPE_EXEC | SCOPE_FILES | SCOPE_MANAGE);
		assert_int_equal(f.keys[i].expires_s, KEYS_NEVER);
		assert_int_equal(f.keys[i].nfrom, 0);
		for (int q = 0; q < KEYS_QUOTAS; q++)
			assert_int_equal(f.keys[i].quota[q], KEYS_NO_QUOTA);
	}
	keys_file_free(&f);
	assert_int_equal(parse("", &f), 0);
	assert_int_equal(f.count, 0);
	keys_file_free(&f);
}

/* One member beside name and digest. */
static const struct {
	const char *line, *why;
} wrong[] = {
    {"x", "is not a JSON object"},
    {"[]", "is not a JSON object"},
    {"{}{}", "is not a JSON object"},
    {" # no comment", "is not a JSON object"},
    {"{\"name\":\"a\\u0000\"}", "is not a JSON object"},
    {"{}", "name: is missing"},
    {"{\"name\":\"x\"}", "digest: is missing"},
    {"{\"name\":\"x\",\"name\":\"x\",\"digest\":\"" D2 "\"}", "a member stands twice"},
    {"{\"name\":\"\",\"digest\":\"" D2 "\"}",
	"name: must be a letter or digit, then at most 62 of letters, digits and ._-"},
    {"{\"name\":\"-x\",\"digest\":\"" D2 "\"}",
	"name: must be a letter or digit, then at most 62 of letters, digits and ._-"},
    {"{\"name\":\"x\",\"digest\":\"" D1 "1\"}",
	"digest: must be the SHA-256 of the key as 64 digits 0-9a-f, or null"},
    {"{\"name\":\"x\",\"digest\":7}",
	"digest: must be the SHA-256 of the key as 64 digits 0-9a-f, or null"},
    {"{\"name\":\"x\",\"digest\":null}", "digest: only a line with a certificate may do without"},
    {"{\"name\":\"x\",\"digest\":\"" D2 "\",\"scope\":[]}", "there is no member scope"},
    {"{\"name\":\"x\",\"digest\":\"" D2 "\",\"a\\nb\\u001b\":1}", "there is no member a?b?"},
    {"{\"name\":\"x\",\"digest\":\"" D2 "\",\"tenant\":null}",
	"tenant: must be a letter or digit, then at most 62 of letters, digits and ._-"},
    {"{\"name\":\"x\",\"digest\":\"" D2 "\",\"scopes\":[]}",
	"scopes: must be a list of read, exec, files, manage, admin"},
    {"{\"name\":\"x\",\"digest\":\"" D2 "\",\"scopes\":[\"write\"]}",
	"scopes: only read, exec, files, manage and admin are"},
    {"{\"name\":\"x\",\"digest\":\"" D2 "\",\"scopes\":[\"read\",\"read\"]}",
	"scopes: read stands twice"},
    {"{\"name\":\"x\",\"digest\":\"" D2 "\",\"scopes\":[\"admin\",\"read\",\"admin\"]}",
	"scopes: admin stands twice"},
    {"{\"name\":\"x\",\"digest\":\"" D2 "\",\"expires\":\"2027-01-31\"}",
	"expires: must be a time such as 2027-01-31T00:00:00Z, or null"},
    {"{\"name\":\"x\",\"digest\":\"" D2 "\",\"expires\":\"2027-02-29T00:00:00Z\"}",
	"expires: must be a time such as 2027-01-31T00:00:00Z, or null"},
    {"{\"name\":\"x\",\"digest\":\"" D2 "\",\"expires\":1800000000}",
	"expires: must be a time such as 2027-01-31T00:00:00Z, or null"},
    {"{\"name\":\"x\",\"digest\":\"" D2 "\",\"from\":[]}",
	"from: must be a list of addresses and CIDRs; without it a key is good from everywhere"},
    {"{\"name\":\"x\",\"digest\":\"" D2 "\",\"from\":[1]}", "from: must be a list of strings"},
    {"{\"name\":\"x\",\"digest\":\"" D2 "\",\"from\":[\"10.0.0.1/8\"]}",
	"from: 10.0.0.1/8 has bits set behind its prefix"},
    {"{\"name\":\"x\",\"digest\":\"" D2 "\",\"from\":[\"example.org\"]}",
	"from: example.org is no address and no CIDR"},
    {"{\"name\":\"x\",\"digest\":\"" D2 "\",\"quotas\":[]}",
	"quotas: must be an object such as {\"sandboxes\":5}"},
    {"{\"name\":\"x\",\"digest\":\"" D2 "\",\"quotas\":{\"boxes\":5}}",
	"quotas: there is no quota boxes"},
    {"{\"name\":\"x\",\"digest\":\"" D2 "\",\"quotas\":{\"sandboxes\":1.5}}",
	"quotas: sandboxes: must be a whole number from 0 to 1000000"},
    {"{\"name\":\"x\",\"digest\":\"" D2 "\",\"quotas\":{\"cpus\":-1}}",
	"quotas: cpus: must be a number from 0 to 1000000"},
    {"{\"name\":\"x\",\"digest\":\"" D2 "\",\"quotas\":{\"cpus\":-0.5}}",
	"quotas: cpus: must be a number from 0 to 1000000"},
    {"{\"name\":\"x\",\"digest\":\"" D2 "\",\"quotas\":{\"cpus\":1000000.5}}",
	"quotas: cpus: must be a number from 0 to 1000000"},
    {"{\"name\":\"x\",\"digest\":\"" D2 "\",\"quotas\":{\"sandboxes\":1000001}}",
	"quotas: sandboxes: must be a whole number from 0 to 1000000"},
    {"{\"name\":\"x\",\"digest\":\"" D2 "\",\"quotas\":{\"requests_per_second\":0}}",
	"quotas: requests_per_second: must be a whole number from 1 to 1000000"},
    {"{\"name\":\"x\",\"digest\":\"" D2 "\",\"certificate\":\"\"}",
	"certificate: must be the common name of a client certificate, of at most 63 bytes"},
    {"{\"name\":\"x\",\"digest\":\"" D2 "\",\"certificate\":\"a\\nb\"}",
	"certificate: contains a control character"},
    {"{\"name\":\"a\",\"digest\":\"" D2 "\"}", "the name a stands in line 1 already"},
    {"{\"name\":\"x\",\"digest\":\"" D1 "\"}", "the digest of x is that of a in line 1"},
};

static void
a_file_with_one_bad_line_is_refused_whole_with_its_number(void **state)
{
	char text[2048], want[512];
	struct keys_file f;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		snprintf(text, sizeof(text), FIRST "#\n%s\n", wrong[i].line);
		snprintf(want, sizeof(want), "line 3: %s", wrong[i].why);
		if (parse(text, &f) != -1)
			fail_msg("taken: %s", wrong[i].line);
		assert_string_equal(why, want);
		assert_null(f.keys);
		assert_int_equal(f.count, 0);
	}
}

static void
two_keys_with_one_certificate_are_refused(void **state)
{
	struct keys_file f;

	(void)state;
	assert_int_equal(parse("{\"name\":\"a\",\"digest\":null,\"certificate\":\"c\"}\n"
			       "{\"name\":\"b\",\"digest\":null,\"certificate\":\"c\"}\n",
			     &f),
	    -1);
	assert_string_equal(why, "line 2: the certificate of b is that of a in line 1");
}

static void
keys_of_a_tenant_agree_about_its_quotas(void **state)
{
#define ACME(name, digest, quotas)                                                                \
	"{\"name\":\"" name "\",\"tenant\":\"acme\",\"digest\":\"" digest "\",\"quotas\":" quotas \
	"}\n"
	struct keys_file f;

	(void)state;
	assert_int_equal(parse(ACME("a", D1, "{\"sandboxes\":10,\"cpus\":0.5}")
				   ACME("b", D2, "{\"sandboxes\":5}"),
			     &f),
	    -1);
	assert_string_equal(why, "line 2: tenant acme has sandboxes 5 here and 10 in line 1");
	assert_int_equal(
	    parse(ACME("a", D1, "{\"cpus\":0.5}") ACME("b", D2, "{\"cpus\":1}"), &f), -1);
	assert_string_equal(why, "line 2: tenant acme has cpus 1 here and 0.5 in line 1");
	assert_int_equal(
	    parse(ACME("a", D1, "{\"sandboxes\":5}") ACME("b", D2, "{\"sandboxes\":5,\"execs\":3}"),
		&f),
	    0);
	keys_file_free(&f);
	assert_int_equal(
	    parse("{\"name\":\"a\",\"digest\":\"" D1
		  "\",\"quotas\":{\"sandboxes\":1}}\n" ACME("b", D2, "{\"sandboxes\":5}"),
		&f),
	    0);
	keys_file_free(&f);
}

static void
a_quota_may_be_its_least_and_its_most(void **state)
{
	struct keys_file f;

	(void)state;
	assert_int_equal(
	    parse("{\"name\":\"a\",\"digest\":\"" D1 "\",\"quotas\":{\"sandboxes\":1000000,"
		  "\"execs\":0,\"requests_per_second\":1,\"cpus\":1000000.0}}",
		&f),
	    0);
	assert_int_equal(f.keys[0].quota[QUOTA_SANDBOXES], 1000000);
	assert_int_equal(f.keys[0].quota[QUOTA_EXECS], 0);
	assert_int_equal(f.keys[0].quota[QUOTA_REQUESTS], 1);
	assert_int_equal(f.keys[0].quota[QUOTA_CPUS], INT64_C(1000000) * 1000000000);
	keys_file_free(&f);
	assert_int_equal(parse("{\"name\":\"a\",\"digest\":\"" D1
			       "\",\"quotas\":{\"sandboxes\":0,\"cpus\":0.0}}",
			     &f),
	    0);
	assert_int_equal(f.keys[0].quota[QUOTA_SANDBOXES], 0);
	assert_int_equal(f.keys[0].quota[QUOTA_CPUS], 0);
	keys_file_free(&f);
}

static void
no_file_has_more_than_1024_keys_4_mib_or_16_kib_in_a_line(void **state)
{
	static char text[2048 * 128], line[2 * KEYS_LINE_MAX];
	struct keys_file f;
	size_t at = 0;

	(void)state;
	for (int i = 0; i < 1025; i++) {
		if (i == 1024) {
			assert_int_equal(parse(text, &f), 0);
			assert_int_equal(f.count, 1024);
			keys_file_free(&f);
		}
		at += (size_t)sprintf(text + at, "{\"name\":\"k%d\",\"digest\":\"%064x\"}\n", i, i);
	}
	assert_int_equal(parse(text, &f), -1);
	assert_string_equal(why, "line 1025: a file has at most 1024 keys");

	memset(line, ' ', sizeof(line) - 1);
	memcpy(line, FIRST, sizeof(FIRST) - 2);
	line[KEYS_LINE_MAX] = '\0';
	assert_int_equal(parse(line, &f), 0);
	keys_file_free(&f);
	line[KEYS_LINE_MAX] = ' ';
	assert_int_equal(parse(line, &f), -1);
	assert_string_equal(why, "line 1: is longer than 16384 bytes");
	assert_int_equal(keys_file_parse("", KEYS_FILE_MAX + 1, &f, why, sizeof(why)), -1);
	assert_string_equal(why, "is larger than 4194304 bytes");
}

static int
allows(const char *net, const char *addr)
{
	struct keys_key k = {.nfrom = 1};
	uint8_t bytes[16] = {[10] = 0xff, 0xff};
	const char *fault;

	assert_int_equal(keys_net_parse(net, &k.from[0], &fault), 0);
	if (inet_pton(AF_INET, addr, bytes + 12) != 1)
		assert_int_equal(inet_pton(AF_INET6, addr, bytes), 1);
	return keys_from_allows(&k, bytes);
}

static void
a_key_is_good_only_from_its_networks(void **state)
{
	struct keys_key anywhere = {0};
	uint8_t unknown[16] = {0};

	(void)state;
	assert_true(allows("10.0.0.0/8", "10.255.0.1"));
	assert_false(allows("10.0.0.0/8", "11.0.0.0"));
	assert_true(allows("192.0.2.128/25", "192.0.2.129"));
	assert_false(allows("192.0.2.128/25", "192.0.2.127"));
	assert_true(allows("0.0.0.0/0", "203.0.113.9"));
	assert_false(allows("0.0.0.0/0", "2001:db8::1"));
	assert_false(allows("::/0", "203.0.113.9"));
	assert_true(allows("::/0", "2001:db8::1"));
	assert_false(allows("::/0", "::"));
	assert_true(allows("2001:db8::/33", "2001:db8:7fff::1"));
	assert_false(allows("2001:db8::/33", "2001:db8:8000::1"));
	assert_true(allows("::1", "::1"));
	assert_true(allows("::ffff:10.0.0.0/104", "10.9.9.9"));
	assert_true(keys_from_allows(&anywhere, unknown));
}

static void
what_is_no_network_is_refused(void **state)
{
	static const char *const bad[] = {"", "/8", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/08",
	    "10.0.0.0/8 ", "10.0.0/8", "::/129", "fe80::1%eth0", "10.0.0.0/-1", "10.0.0.0/8/8",
	    "10.0.0.0/0x8", "[::1]", "1:2:3:4:5:6:7:8:9:10:11:12:13:14:15:16:17:18:19:20/1",
	    "0000:0000:0000:0000:0000:ffff:255.255.255.2550"};
	struct keys_net net;
	const char *fault;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (keys_net_parse(bad[i], &net, &fault) != -1)
			fail_msg("taken: %s", bad[i]);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_line_with_everything_is_read),
	    cmocka_unit_test(what_a_line_leaves_out_is_tenant_default_four_scopes_and_no_limit),
	    cmocka_unit_test(a_file_with_one_bad_line_is_refused_whole_with_its_number),
	    cmocka_unit_test(two_keys_with_one_certificate_are_refused),
	    cmocka_unit_test(keys_of_a_tenant_agree_about_its_quotas),
	    cmocka_unit_test(a_quota_may_be_its_least_and_its_most),
	    cmocka_unit_test(no_file_has_more_than_1024_keys_4_mib_or_16_kib_in_a_line),
	    cmocka_unit_test(a_key_is_good_only_from_its_networks),
	    cmocka_unit_test(what_is_no_network_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
