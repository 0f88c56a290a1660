/* Egress lists: which entries there are, and what they allow. */
// link: common/egress.o common/egress_list.o common/egress_range.o
#include <stdio.h>

#include "tests/unit/egress_kit.h"

#define LABEL63 "a23456789012345678901234567890123456789012345678901234567890123"

static void
hosts_have_one_spelling(void **state)
{
	static const struct {
		const char *text, *name;
		int family;
	} good[] = {
	    {"example.com", "example.com", 0},
	    {"EXAMPLE.Com", "example.com", 0},
	    {"example.com.", "example.com", 0},
	    {"a", "a", 0},
	    {"a_b.c-d.e", "a_b.c-d.e", 0},
	    {"xn--bcher-kva.example", "xn--bcher-kva.example", 0},
	    {"1.example", "1.example", 0},
	    {"1.2.3.4.example", "1.2.3.4.example", 0},
	    {"0xg", "0xg", 0},
	    {LABEL63 "." LABEL63 "." LABEL63 ".a", LABEL63 "." LABEL63 "." LABEL63 ".a", 0},
	    {"1.2.3.4", "1.2.3.4", 4},
	    {"255.255.255.255", "255.255.255.255", 4},
	    {"::1", "::1", 6},
	    {"[::1]", "::1", 6},
	    {"2001:DB8:0:0::1", "2001:db8::1", 6},
	    {"::ffff:10.0.0.1", "10.0.0.1", 4},
	    {"::ffff:a00:1", "10.0.0.1", 4},
	};
	struct egress_host host;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		if (host_of(good[i].text, &host) != 0)
			fail_msg("%s", good[i].text);
		assert_string_equal(host.name, good[i].name);
		assert_int_equal(host.addr.family, good[i].family);
	}
}

static void
what_is_no_host_is_refused(void **state)
{
	static const char *const bad[] = {"", ".", "..", "a..b", ".a", "-a", "a-", "a.-b", "a b",
	    " a", "a\n", "a\t", "a\x01", "a\x7f",
	    "b\xc3\xbc"
	    "cher.example",
	    "\xff", "a/b", "a?b", "a#b", "a@b", "a%41", "a%00", "a\\b", "http://a", "a,b", "*",
	    "*.a", "a.*", "$(x)", "a'b", LABEL63 "4.a", "localhost", "LOCALHOST", "localhost.",
	    "x.localhost",
	    /* other spellings of IPv4 addresses */
	    "127.1", "127.0.1", "0x7f.1", "0x7f.0.0.1", "0x7f000001", "2130706433", "017700000001",
	    "010.0.0.1", "127.0.0.01", "127.0.0.1.", "256.1.1.1", "1.2.3", "1.2.3.4.5", "0", "1",
	    "a.1", "a.0x1", "a.0x", "1.2.3.4 ", "\xef\xbc\x91.2.3.4",
	    /* and of IPv6 ones */
	    "[]", "[::1", "::1]", "[1.2.3.4]", "[a]", "::g", ":::", "1::2::3", "fe80::1%eth0",
	    "[fe80::1%1]", "::1.2.3", "12345::", "1:2:3:4:5:6:7:8:9", "::ffff:1.2.3.04", "a:b"};
	struct egress_host host;
	const char *why;
	char longest[300];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (host_of(bad[i], &host) != -1)
			fail_msg("\"%s\" became \"%s\"", bad[i], host.name);
	assert_int_equal(egress_host("a\0b", 3, &host, &why), -1);
	assert_int_equal(egress_host("1.2.3.4\0", 8, &host, &why), -1);
	assert_int_equal(egress_host("::1\0", 4, &host, &why), -1);
	for (size_t i = 0; i < sizeof(longest) - 1; i++)
		longest[i] = i % 60 == 59 ? '.' : 'a';
	assert_int_equal(egress_host(longest, 253, &host, &why), 0);
	assert_int_equal(egress_host(longest, 254, &host, &why), -1);
	longest[253] = '.';
	assert_int_equal(egress_host(longest, 254, &host, &why), 0);
	assert_int_equal(strlen(host.name), 253);
	longest[254] = '.';
	assert_int_equal(egress_host(longest, 255, &host, &why), -1);
}

static void
entries_have_one_spelling(void **state)
{
	static const char *const good[][2] = {
	    {"Example.COM", "example.com"}, {"example.com.:443", "example.com:443"},
	    {"example.com:1", "example.com:1"}, {"example.com:65535", "example.com:65535"},
	    {"*.Example.com", "*.example.com"}, {"*.example.com:8443", "*.example.com:8443"},
	    {"*.com", "*.com"}, {"1.2.3.4", "1.2.3.4"}, {"1.2.3.4:53", "1.2.3.4:53"},
	    {"1.2.3.4/32", "1.2.3.4"}, {"10.0.0.0/8", "10.0.0.0/8"}, {"0.0.0.0/0", "0.0.0.0/0"},
	    {"::/0", "::/0"}, {"::1", "::1"}, {"[::1]", "::1"}, {"[::1]:80", "[::1]:80"},
	    {"2001:DB8::/32", "2001:db8::/32"}, {"2001:db8::1/128", "2001:db8::1"},
	    {"::ffff:1.2.3.4", "1.2.3.4"}, {"[::ffff:1.2.3.4]:80", "1.2.3.4:80"},
	    {"::ffff:10.0.0.0/104", "10.0.0.0/8"},
	    {"2001:db8::1:80", "2001:db8::1:80"}, /* no port: it has no brackets */
	};
	struct egress_entry e;
	const char *why;
	char text[EGRESS_ENTRY_MAX];

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		if (egress_entry(good[i][0], strlen(good[i][0]), &e, &why) != 0)
			fail_msg("%s: %s", good[i][0], why);
		assert_int_equal(egress_entry_text(&e, text), strlen(good[i][1]));
		assert_string_equal(text, good[i][1]);
	}
}

static const char *const no_entries[][2] = {
    {"", "no host"},
    {":80", "no host"},
    {"https://example.com", "path"},
    {"example.com/x", "path"},
    {"user@example.com", "without scheme"},
    {"example.com:", "a port is"},
    {"example.com:0", "a port is"},
    {"example.com:080", "a port is"},
    {"example.com:65536", "a port is"},
    {"example.com:http", "a port is"},
    {"example.com:*", "a port is"},
    {"example.com:+80", "a port is"},
    {"example.com: 80", "a port is"},
    {"a:80:81", "IPv6"},
    {"*", "wildcard"},
    {"*:443", "wildcard"},
    {"*.", "wildcard"},
    {"**.example.com", "wildcard"},
    {"*example.com", "wildcard"},
    {"a.*.com", "letters"},
    {"*.*.com", "letters"},
    {"*.1.2.3.4", "wildcard"},
    {"*.0.0.1", "IPv4"},
    {"*.localhost", "localhost"},
    {"localhost:80", "localhost"},
    {"m\xc3\xbcnchen.example", "xn--"},
    {"\x80", "xn--"},
    {"/", "address"},
    {LABEL63 "." LABEL63 "." LABEL63 "." LABEL63, "253"},
    {"10.0.0.1/8", "must be 0"},
    {"10.0.0.0/33", "bits"},
    {"10.0.0.0/", "bits"},
    {"10.0.0.0/08", "bits"},
    {"10.0.0.0/8/8", "bits"},
    {"10.0.0.0/8:80", "bits"},
    {"10.0.0.0/-1", "bits"},
    {"10/8", "address"},
    {"::/129", "bits"},
    {"::ffff:1.0.0.0/95", "bits"},
    {"2001:db8::1/32", "must be 0"},
    {"[]", "IPv6"},
    {"[::1", "IPv6"},
    {"[::1]80", "IPv6"},
    {"[::1]:", "a port is"},
    {"[1.2.3.4]:80", "IPv6"},
    {"a\nb", "letters"},
    {" a", "letters"},
};

static void
what_is_no_entry_is_refused_with_a_reason(void **state)
{
	struct egress_entry e;
	const char *why;

	(void)state;
	for (size_t i = 0; i < sizeof(no_entries) / sizeof(no_entries[0]); i++) {
		if (egress_entry(no_entries[i][0], strlen(no_entries[i][0]), &e, &why) != -1)
			fail_msg("\"%s\" is taken", no_entries[i][0]);
		if (strstr(why, no_entries[i][1]) == NULL)
			fail_msg("\"%s\": %s", no_entries[i][0], why);
	}
	/* What stands behind the end is not looked at. */
	assert_int_equal(egress_entry("*example.com", 0, &e, &why), -1);
	assert_null(strstr(why, "wildcard"));
}

static void
lists_are_joined_and_have_no_entry_twice(void **state)
{
	(void)state;
	make_list("B.example a.example:80 b.example b.example. A.EXAMPLE:80 [::1] ::1 a.example");
	assert_string_equal(list.text, "b.example\na.example:80\n::1\na.example");
	assert_int_equal(list.entries, 4);
	make_list("");
	assert_int_equal(list.len, 0);
}

static void
lists_are_bounded(void **state)
{
	static char big[EGRESS_TEXT_MAX + 2];
	char entry[EGRESS_ENTRY_MAX];
	const char *why;
	int i;

	(void)state;
	memset(&list, 0, sizeof(list));
	for (i = 0; i < EGRESS_ENTRIES_MAX; i++) {
		snprintf(entry, sizeof(entry), "h%d.example", i);
		assert_int_equal(egress_list_add(&list, entry, strlen(entry), &why), 0);
	}
	assert_true(egress_list_valid(list.text, list.len));
	assert_int_equal(egress_list_add(&list, "one.more", 8, &why), -1);
	assert_non_null(strstr(why, "256"));
	assert_int_equal(egress_list_add(&list, "H0.example", 10, &why), 0); /* it has it */
	memset(&list, 0, sizeof(list));
	for (i = 0; i < 100; i++) {
		snprintf(entry, sizeof(entry), LABEL63 "." LABEL63 "." LABEL63 ".h%d", i);
		if (egress_list_add(&list, entry, strlen(entry), &why) != 0)
			break;
	}
	assert_true(i > 80 && i < 100 && list.len <= EGRESS_TEXT_MAX);
	assert_true(egress_list_valid(list.text, list.len));
	memset(big, 'a', sizeof(big));
	assert_false(egress_list_valid(big, sizeof(big)));
	for (size_t k = 0; k < 600; k += 2)
		memcpy(big + k, "a\n", 2);
	assert_false(egress_list_valid(big, 599)); /* 300 entries */
	assert_false(egress_list_valid("a\n", 2));
	assert_false(egress_list_valid("a\n\nb", 4));
	assert_false(egress_list_valid("a b", 3));
}

static int
matches(const char *host, uint16_t port)
{
	struct egress_host h;

	if (host_of(host, &h) != 0)
		fail_msg("%s", host);
	return egress_match(list.text, list.len, &h, port);
}

static void
an_entry_allows_its_own_and_nothing_else(void **state)
{
	(void)state;
	make_list("a.example b.example:8080 *.c.example *.d.example:22 1.2.3.4 5.6.7.8:9 "
		  "9.0.0.0/8 2600::1 [2600::2]:99 2601::/16");
	assert_true(matches("a.example", 80) && matches("a.example", 443));
	assert_false(matches("a.example", 8080) || matches("a.example", 0));
	assert_true(matches("A.Example.", 443));
	assert_false(matches("x.a.example", 443) || matches("xa.example", 443));
	assert_false(matches("example", 443) || matches("a.example.x", 443));
	assert_true(matches("b.example", 8080));
	assert_false(matches("b.example", 80) || matches("b.example", 443));
	assert_true(matches("x.c.example", 80) && matches("y.x.c.example", 443));
	assert_false(matches("c.example", 80) || matches("xc.example", 80));
	assert_true(matches("x.d.example", 22));
	assert_false(matches("x.d.example", 443));
	assert_true(matches("1.2.3.4", 443) && matches("::ffff:1.2.3.4", 443));
	assert_false(matches("1.2.3.5", 443) || matches("1.2.3.4", 22));
	assert_true(matches("5.6.7.8", 9));
	assert_false(matches("5.6.7.8", 80));
	assert_true(matches("9.255.0.1", 80));
	assert_false(matches("8.255.255.255", 80) || matches("9.0.0.1", 81));
	assert_true(matches("2600::1", 80) && matches("[2600::2]", 99) && matches("2601:ff::", 80));
	assert_false(matches("2600::2", 80) || matches("2602::", 80));
	make_list("0.0.0.0/0");
	assert_true(matches("1.1.1.1", 80));
	assert_false(matches("2600::1", 80) || matches("a.example", 80));
	make_list("");
	assert_false(matches("a.example", 80));
}

static int
covers(const char *entry)
{
	struct egress_entry e;
	const char *why;

	if (egress_entry(entry, strlen(entry), &e, &why) != 0)
		fail_msg("%s: %s", entry, why);
	return egress_covers(list.text, list.len, &e);
}

static void
a_narrower_list_has_no_more_than_the_wider_one(void **state)
{
	(void)state;
	make_list("a.example b.example:80 b.example:443 c.example:80 *.d.example *.e.example:22 "
		  "9.0.0.0/8 10.1.0.0/16 0.0.0.0/0 2000::/3");
	assert_true(covers("a.example") && covers("a.example:80") && covers("a.example:443"));
	assert_false(covers("a.example:22") || covers("*.a.example") || covers("x.a.example"));
	assert_true(covers("b.example") && covers("b.example:80"));
	assert_false(covers("c.example") || covers("c.example:443"));
	assert_true(covers("c.example:80"));
	assert_true(covers("x.d.example") && covers("*.d.example") && covers("*.x.d.example"));
	assert_false(covers("d.example") || covers("*.example") || covers("x.d.example:22"));
	assert_true(covers("x.e.example:22") && covers("*.e.example:22"));
	assert_false(covers("x.e.example"));
	assert_true(covers("9.1.2.3") && covers("9.0.0.0/9") && covers("8.0.0.0/7"));
	assert_true(covers("0.0.0.0/0") && covers("2600::/16"));
	assert_false(covers("::/0") || covers("9.1.2.3:22"));
	/* What is not public is covered only by what names it. */
	assert_true(covers("10.1.2.3") && covers("10.1.0.0/17") && covers("10.1.0.0/16"));
	assert_false(covers("10.2.0.1") || covers("10.0.0.0/8") || covers("127.0.0.1"));
	assert_false(covers("2001:db8::1") || covers("169.254.169.254") || covers("0.0.0.0"));
	make_list("169.254.0.0/16");
	assert_true(covers("169.254.1.1"));
	assert_false(covers("169.254.169.254"));
	make_list("");
	assert_false(covers("a.example"));
}

static void
names_come_once_and_in_order(void **state)
{
	static const char *const wanted[] = {"b.example", "a.example", "c.example"};
	struct egress_walk w;
	char name[EGRESS_NAME_MAX + 1];
	uint16_t ports[4];

	(void)state;
	make_list(
	    "*.x.example b.example:8080 1.2.3.4 a.example b.example b.example:22 c.example:443 "
	    "a.example:443 b.example:23");
	w = (struct egress_walk){list.text, list.len, 0};
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(egress_next_host(&w, name), 1);
		assert_string_equal(name, wanted[i]);
	}
	assert_int_equal(egress_next_host(&w, name), 0);
	assert_int_equal(egress_ports(list.text, list.len, "a.example", ports, 4), 2);
	assert_true(ports[0] == 80 && ports[1] == 443);
	assert_int_equal(egress_ports(list.text, list.len, "b.example", ports, 4), 4);
	assert_true(ports[0] == 8080 && ports[1] == 80 && ports[2] == 443 && ports[3] == 22);
	assert_int_equal(egress_ports(list.text, list.len, "c.example", ports, 4), 1);
	assert_int_equal(ports[0], 443);
	assert_int_equal(egress_ports(list.text, list.len, "y.x.example", ports, 4), 0);
	w = (struct egress_walk){"a\n?", 3, 0};
	assert_int_equal(egress_next_host(&w, name), 1);
	assert_int_equal(egress_next_host(&w, name), -1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(hosts_have_one_spelling),
	    cmocka_unit_test(what_is_no_host_is_refused),
	    cmocka_unit_test(entries_have_one_spelling),
	    cmocka_unit_test(what_is_no_entry_is_refused_with_a_reason),
	    cmocka_unit_test(lists_are_joined_and_have_no_entry_twice),
	    cmocka_unit_test(lists_are_bounded),
	    cmocka_unit_test(an_entry_allows_its_own_and_nothing_else),
	    cmocka_unit_test(a_narrower_list_has_no_more_than_the_wider_one),
	    cmocka_unit_test(names_come_once_and_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
