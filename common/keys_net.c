/* The networks that a key is good from (keys_file.h). */
#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "common/keys_file.h"

#define V4_BITS 96 /* of ::ffff:0:0, in which v4 addresses are */

static const uint8_t v4[V4_BITS / 8] = {[10] = 0xff, 0xff};

/* A prefix's length, at most most, without zeros before it: 0 and *bits; -1. */
static int
parse_bits(const char *text, unsigned most, unsigned *bits)
{
	unsigned n = 0;

	if (*text == '\0' || strlen(text) > 3 || (*text == '0' && text[1] != '\0'))
		return -1;
	for (; isdigit((unsigned char)*text); text++)
		n = n * 10 + (unsigned)(*text - '0');
	*bits = n;
	return *text == '\0' && n <= most ? 0 : -1;
}

int
keys_net_parse(const char *text, struct keys_net *net, const char **why)
{
	const char *slash = strchrnul(text, '/');
	char addr[INET6_ADDRSTRLEN];
	unsigned bits, first = 0;

	*why = "is no address and no CIDR";
	memset(net, 0, sizeof(*net));
	if ((size_t)(slash - text) >= sizeof(addr))
		return -1;
	memcpy(addr, text, (size_t)(slash - text));
	addr[slash - text] = '\0';
	if (inet_pton(AF_INET, addr, net->addr + sizeof(v4)) == 1) {
		memcpy(net->addr, v4, sizeof(v4));
		first = V4_BITS;
	} else if (inet_pton(AF_INET6, addr, net->addr) != 1)
		return -1;
	bits = 128 - first;
	if (*slash == '/' && parse_bits(slash + 1, bits, &bits) == -1)
		return -1;
	net->bits = (uint8_t)(first + bits);
	for (unsigned i = net->bits; i < 128; i++) {
		if (net->addr[i / 8] & 0x80 >> i % 8) {
			*why = "has bits set behind its prefix";
			return -1;
		}
	}
	return 0;
}

static int
is_v4(const struct keys_net *net)
{
	return net->bits >= V4_BITS && memcmp(net->addr, v4, sizeof(v4)) == 0;
}

char *
keys_net_text(char out[KEYS_NET_TEXT], const struct keys_net *net)
{
	char addr[INET6_ADDRSTRLEN];
	int four = is_v4(net);

	inet_ntop(
	    four ? AF_INET : AF_INET6, net->addr + (four ? sizeof(v4) : 0), addr, sizeof(addr));
	snprintf(out, KEYS_NET_TEXT, "%s/%d", addr, net->bits - (four ? V4_BITS : 0));
	return out;
}

int
keys_net_covers(const struct keys_net *net, const uint8_t addr[16])
{
	unsigned whole = net->bits / 8, rest = net->bits % 8;

	if (is_v4(net) != (memcmp(addr, v4, sizeof(v4)) == 0))
		return 0;
	return memcmp(addr, net->addr, whole) == 0 &&
	       (rest == 0 || ((addr[whole] ^ net->addr[whole]) >> (8 - rest)) == 0);
}

int
keys_from_allows(const struct keys_key *k, const uint8_t addr[16])
{
	static const uint8_t unknown[16];

	if (k->nfrom == 0)
		return 1;
	if (memcmp(addr, unknown, sizeof(unknown)) == 0)
		return 0;
	for (size_t i = 0; i < k->nfrom; i++)
		if (keys_net_covers(&k->from[i], addr))
			return 1;
	return 0;
}
