/* Addresses that are not public: the table, and what names one of them all the same. */
#include "common/egress.h"

#include <arpa/inet.h>
#include <string.h>

#define V4(...)                                      \
	{                                            \
		.family = 4, .byte = { __VA_ARGS__ } \
	}
#define V6(...)                                      \
	{                                            \
		.family = 6, .byte = { __VA_ARGS__ } \
	}

/*
 * What is special comes before what it lies in. From the special-purpose registries of IANA, beside
 * the addresses at which clouds answer their guests. An address of version 6 that nobody has been
 * given is not public: all but 2000::/3.
 */
const struct egress_range egress_ranges[] = {
    {V4(169, 254, 169, 254), 32, "169.254.169.254/32", "metadata", "most clouds"},
    {V4(169, 254, 170, 2), 32, "169.254.170.2/32", "metadata", "AWS, for containers"},
    {V4(169, 254, 170, 23), 32, "169.254.170.23/32", "metadata", "AWS, for pods"},
    {V4(168, 63, 129, 16), 32, "168.63.129.16/32", "metadata", "Azure"},
    {V4(100, 100, 100, 200), 32, "100.100.100.200/32", "metadata", "Alibaba Cloud"},
    {V4(192, 0, 0, 192), 32, "192.0.0.192/32", "metadata", "Oracle Cloud"},
    {V4(0), 8, "0.0.0.0/8", "unspecified", "RFC 791"},
    {V4(10), 8, "10.0.0.0/8", "private", "RFC 1918"},
    {V4(100, 64), 10, "100.64.0.0/10", "shared", "RFC 6598"},
    {V4(127), 8, "127.0.0.0/8", "loopback", "RFC 1122"},
    {V4(169, 254), 16, "169.254.0.0/16", "link-local", "RFC 3927"},
    {V4(172, 16), 12, "172.16.0.0/12", "private", "RFC 1918"},
    {V4(192, 0, 0), 24, "192.0.0.0/24", "reserved", "RFC 6890"},
    {V4(192, 0, 2), 24, "192.0.2.0/24", "documentation", "RFC 5737"},
    {V4(192, 88, 99), 24, "192.88.99.0/24", "translated", "RFC 7526"},
    {V4(192, 168), 16, "192.168.0.0/16", "private", "RFC 1918"},
    {V4(198, 18), 15, "198.18.0.0/15", "benchmarking", "RFC 2544"},
    {V4(198, 51, 100), 24, "198.51.100.0/24", "documentation", "RFC 5737"},
    {V4(203, 0, 113), 24, "203.0.113.0/24", "documentation", "RFC 5737"},
    {V4(224), 4, "224.0.0.0/4", "multicast", "RFC 5771"},
    {V4(255, 255, 255, 255), 32, "255.255.255.255/32", "broadcast", "RFC 919"},
    {V4(240), 4, "240.0.0.0/4", "reserved", "RFC 1112"},
    {V6(0xfd, 0, 0x0e, 0xc2, [14] = 0x02, 0x54), 128, "fd00:ec2::254/128", "metadata", "AWS"},
    {V6(0xfd, 0, 0x0e, 0xc2, [14] = 0, 0x23), 128, "fd00:ec2::23/128", "metadata", "AWS, for pods"},
    {V6(0xfd, 0x20, 0, 0xce, [14] = 0x02, 0x54), 128, "fd20:ce::254/128", "metadata",
	"Google Cloud"},
    {V6(0), 128, "::/128", "unspecified", "RFC 4291"},
    {V6([15] = 1), 128, "::1/128", "loopback", "RFC 4291"},
    {V6(0), 96, "::/96", "reserved", "RFC 4291, IPv4-compatible"},
    {V6([8] = 0xff, 0xff), 96, "::ffff:0:0:0/96", "translated", "RFC 7915"},
    {V6(0, 0x64, 0xff, 0x9b), 96, "64:ff9b::/96", "translated", "RFC 6052"},
    {V6(0, 0x64, 0xff, 0x9b, 0, 1), 48, "64:ff9b:1::/48", "translated", "RFC 8215"},
    {V6(1), 64, "100::/64", "reserved", "RFC 6666"},
    {V6(0x20, 1, 0, 0), 32, "2001::/32", "translated", "RFC 4380, Teredo"},
    {V6(0x20, 1, 0, 2), 48, "2001:2::/48", "benchmarking", "RFC 5180"},
    {V6(0x20, 1), 23, "2001::/23", "reserved", "RFC 2928"},
    {V6(0x20, 1, 0x0d, 0xb8), 32, "2001:db8::/32", "documentation", "RFC 3849"},
    {V6(0x20, 2), 16, "2002::/16", "translated", "RFC 3056, 6to4"},
    {V6(0x3f, 0xff), 20, "3fff::/20", "documentation", "RFC 9637"},
    {V6(0xfc), 7, "fc00::/7", "private", "RFC 4193"},
    {V6(0xfe, 0x80), 10, "fe80::/10", "link-local", "RFC 4291"},
    {V6(0xfe, 0xc0), 10, "fec0::/10", "site-local", "RFC 3879"},
    {V6(0xff), 8, "ff00::/8", "multicast", "RFC 4291"},
    {V6(0), 3, "::/3", "reserved", "IANA"},
    {V6(0x40), 2, "4000::/2", "reserved", "IANA"},
    {V6(0x80), 1, "8000::/1", "reserved", "IANA"},
    {V4(0), 0, NULL, NULL, NULL},
};

void
egress_addr(struct egress_addr *a, const void *bytes, size_t n)
{
	static const uint8_t mapped[12] = {[10] = 0xff, 0xff};
	const uint8_t *p = bytes;

	memset(a, 0, sizeof(*a));
	a->family = 4;
	if (n == 4)
		memcpy(a->byte, p, 4);
	else if (memcmp(p, mapped, sizeof(mapped)) == 0)
		memcpy(a->byte, p + sizeof(mapped), 4);
	else {
		a->family = 6;
		memcpy(a->byte, p, 16);
	}
}

void
egress_addr_text(const struct egress_addr *a, char out[EGRESS_ADDR_TEXT])
{
	if (inet_ntop(a->family == 4 ? AF_INET : AF_INET6, a->byte, out, EGRESS_ADDR_TEXT) == NULL)
		out[0] = '\0';
}

int
egress_addr_within(const struct egress_addr *a, const struct egress_addr *net, unsigned bits)
{
	unsigned whole = bits / 8, rest = bits % 8;

	return a->family == net->family && memcmp(a->byte, net->byte, whole) == 0 &&
	       (rest == 0 || ((a->byte[whole] ^ net->byte[whole]) >> (8 - rest)) == 0);
}

/* The first row that the network lies in with all its addresses. */
static const struct egress_range *
range_of(const struct egress_addr *a, unsigned bits)
{
	const struct egress_range *r;

	for (r = egress_ranges; r->cidr != NULL; r++)
		if (bits >= r->bits && egress_addr_within(a, &r->addr, r->bits))
			return r;
	return NULL;
}

const struct egress_range *
egress_address_range(const struct egress_addr *a)
{
	return range_of(a, 128);
}

const struct egress_range *
egress_entry_range(const struct egress_entry *e)
{
	return e->kind == EGRESS_NET ? range_of(&e->addr, e->bits) : NULL;
}

int
egress_literal(const char *list, size_t len, const struct egress_addr *a, uint16_t port, int exact)
{
	const struct egress_range *range = egress_address_range(a);
	struct egress_walk walk = {list, len, 0};
	struct egress_entry e;

	while (egress_next(&walk, &e) == 1) {
		if (e.kind != EGRESS_NET || !egress_port_allowed(&e, port) ||
		    !egress_addr_within(a, &e.addr, e.bits))
			continue;
		if (e.bits == (a->family == 4 ? 32 : 128))
			return 1;
		if (!exact && range != NULL && egress_entry_range(&e) == range)
			return 1;
	}
	return 0;
}
