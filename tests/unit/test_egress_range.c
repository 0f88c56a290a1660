/* Addresses that are not public: every row of the table, and what names such an address. */
// link: common/egress.o common/egress_list.o common/egress_range.o
#include "tests/unit/egress_kit.h"

static struct egress_addr
addr_of(const char *text)
{
	struct egress_host h;

	if (host_of(text, &h) != 0 || h.addr.family == 0)
		fail_msg("%s", text);
	return h.addr;
}

static const char *
reason_of(const char *text)
{
	struct egress_addr a = addr_of(text);
	const struct egress_range *r = egress_address_range(&a);

	return r != NULL ? r->reason : "public";
}

/* One more, or one less, than the first or last address of a range. */
static int
step(struct egress_addr *a, int by)
{
	int n = a->family == 4 ? 4 : 16, i;

	for (i = n - 1; i >= 0; i--) {
		a->byte[i] = (uint8_t)(a->byte[i] + by);
		if (a->byte[i] != (by > 0 ? 0 : 0xff))
			return 1;
	}
	return 0; /* over the end */
}

static struct egress_addr
last_of(const struct egress_range *r)
{
	struct egress_addr a = r->addr;
	int bit, bits = a.family == 4 ? 32 : 128;

	for (bit = r->bits; bit < bits; bit++)
		a.byte[bit / 8] |= (uint8_t)(0x80 >> (bit % 8));
	return a;
}

/* Every row is what its text says, refuses its first and last address, and ends there. */
static void
every_range_is_refused_from_its_first_address_to_its_last(void **state)
{
	const struct egress_range *r, *at;
	struct egress_addr a;
	struct egress_entry e;
	const char *why;
	int n = 0;

	(void)state;
	for (r = egress_ranges; r->cidr != NULL; r++, n++) {
		if (egress_entry(r->cidr, strlen(r->cidr), &e, &why) != 0)
			fail_msg("%s: %s", r->cidr, why);
		assert_int_equal(e.bits, r->bits);
		assert_memory_equal(&e.addr, &r->addr, sizeof(e.addr));
		assert_ptr_equal(egress_entry_range(&e), r);
		assert_true(r->reason[0] != '\0' && r->source[0] != '\0');
		a = r->addr;
		assert_non_null(egress_address_range(&a));
		if (step(&a, -1) && (at = egress_address_range(&a)) != NULL)
			assert_ptr_not_equal(at, r);
		a = last_of(r);
		at = egress_address_range(&a);
		assert_non_null(at);
		assert_true(at <= r); /* its own row, or a more special one */
		if (step(&a, 1) && (at = egress_address_range(&a)) != NULL)
			assert_ptr_not_equal(at, r);
	}
	assert_true(n > 40);
}

static const char *const kinds[][2] = {
    {"8.8.8.8", "public"},
    {"1.1.1.1", "public"},
    {"9.255.255.255", "public"},
    {"11.0.0.0", "public"},
    {"100.63.255.255", "public"},
    {"100.128.0.0", "public"},
    {"172.15.255.255", "public"},
    {"172.32.0.0", "public"},
    {"192.0.1.0", "public"},
    {"198.17.255.255", "public"},
    {"198.20.0.0", "public"},
    {"223.255.255.255", "public"},
    {"2606:4700::1111", "public"},
    {"2001:200::1", "public"},
    {"2001:4860:4860::8888", "public"},
    {"2a00::1", "public"},
    {"0.0.0.0", "unspecified"},
    {"10.0.0.1", "private"},
    {"100.64.0.1", "shared"},
    {"127.0.0.1", "loopback"},
    {"127.255.255.254", "loopback"},
    {"169.254.169.254", "metadata"},
    {"169.254.1.1", "link-local"},
    {"100.100.100.200", "metadata"},
    {"168.63.129.16", "metadata"},
    {"172.16.0.1", "private"},
    {"172.31.255.255", "private"},
    {"192.168.1.1", "private"},
    {"198.18.0.1", "benchmarking"},
    {"192.0.2.1", "documentation"},
    {"198.51.100.1", "documentation"},
    {"203.0.113.1", "documentation"},
    {"224.0.0.1", "multicast"},
    {"240.0.0.1", "reserved"},
    {"255.255.255.255", "broadcast"},
    {"::", "unspecified"},
    {"::1", "loopback"},
    {"::2", "reserved"},
    {"::127.0.0.1", "reserved"},
    {"::8.8.8.8", "reserved"},
    {"::ffff:127.0.0.1", "loopback"},
    {"::ffff:169.254.169.254", "metadata"},
    {"::ffff:8.8.8.8", "public"},
    {"::ffff:0:127.0.0.1", "translated"},
    {"64:ff9b::7f00:1", "translated"},
    {"64:ff9b::808:808", "translated"},
    {"64:ff9b:1::1", "translated"},
    {"2002:7f00:1::", "translated"},
    {"2001:0:1::1", "translated"},
    {"2001:db8::1", "documentation"},
    {"3fff::1", "documentation"},
    {"fd00:ec2::254", "metadata"},
    {"fd20:ce::254", "metadata"},
    {"fc00::1", "private"},
    {"fdff::1", "private"},
    {"fe80::1", "link-local"},
    {"febf::1", "link-local"},
    {"fec0::1", "site-local"},
    {"ff02::1", "multicast"},
    {"5f00::1", "reserved"},
    {"4000::", "reserved"},
    {"1fff::", "reserved"},
    {"8000::", "reserved"},
    {"100::1", "reserved"},
};

static void
addresses_are_what_they_are(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strcmp(reason_of(kinds[i][0]), kinds[i][1]) != 0)
			fail_msg("%s is %s", kinds[i][0], reason_of(kinds[i][0]));
}

static int
literal(const char *address, uint16_t port, int exact)
{
	struct egress_addr a = addr_of(address);

	return egress_literal(list.text, list.len, &a, port, exact);
}

static void
what_is_not_public_is_allowed_only_where_an_entry_names_it(void **state)
{
	(void)state;
	make_list("0.0.0.0/0 ::/0 10.1.2.3:5432 192.168.0.0/16 169.254.0.0/16 126.0.0.0/7 fd00::/8 "
		  "127.0.0.1 1.2.3.4 8.0.0.0/8 10.0.0.0/7");
	assert_true(literal("10.1.2.3", 5432, 0));
	assert_false(literal("10.1.2.3", 443, 0) || literal("10.1.2.4", 5432, 0));
	assert_true(literal("192.168.9.9", 443, 0));
	assert_false(literal("192.168.9.9", 22, 0));
	assert_true(literal("169.254.1.1", 80, 0));
	assert_false(literal("169.254.169.254", 80, 0)); /* a row of its own */
	assert_true(literal("127.0.0.1", 80, 0) && literal("::ffff:127.0.0.1", 80, 0));
	assert_false(literal("127.0.0.2", 80, 0)); /* 126.0.0.0/7 is not within the row */
	assert_false(literal("10.9.9.9", 80, 0) || literal("172.16.0.1", 80, 0));
	assert_true(literal("fd00::1", 80, 0));
	assert_false(literal("fd00:ec2::254", 80, 0) || literal("fe80::1", 80, 0));
	/* Exactly: an address of the server's own. */
	assert_true(literal("127.0.0.1", 80, 1) && literal("1.2.3.4", 80, 1));
	assert_false(literal("192.168.9.9", 80, 1) || literal("8.8.8.8", 80, 1));
	assert_false(literal("8.8.8.8", 80, 0)); /* public: not by a CIDR */
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_range_is_refused_from_its_first_address_to_its_last),
	    cmocka_unit_test(addresses_are_what_they_are),
	    cmocka_unit_test(what_is_not_public_is_allowed_only_where_an_entry_names_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
