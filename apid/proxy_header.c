/* Parser of the PROXY protocol's header (proxy_header.h). */
#include <string.h>

#include "apid/proxy_header.h"

#define FIXED 16 /* signature, version and command, family, length */
#define FOUR_BYTES 12
#define SIX_BYTES 36

enum { LOCAL = 0x20, PROXY = 0x21 }; /* version and command */
enum { UNSPECIFIED = 0x00, TCP4 = 0x11, TCP6 = 0x21, UNIX_STREAM = 0x31 };

static const uint8_t signature[12] = "\r\n\r\n\0\r\nQUIT\n";
static const uint8_t text_signature[6] = "PROXY ";

static int
begins(const uint8_t *p, size_t n, const uint8_t *sign, size_t size)
{
	return memcmp(p, sign, n < size ? n : size) == 0;
}

static uint16_t
get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

/* The addresses, of which the first is the client's; what follows them is for others. */
static int
take_address(uint8_t family, const uint8_t *p, size_t n, struct peer_addr *peer)
{
	uint8_t addr[16] = {[10] = 0xff, [11] = 0xff};

	switch (family) {
	case TCP4:
		if (n < FOUR_BYTES)
			return -1;
		memcpy(addr + 12, p, 4);
		peer_set(peer, addr, get16(p + 8));
		return 0;
	case TCP6:
		if (n < SIX_BYTES)
			return -1;
		peer_set(peer, p, get16(p + 32));
		return 0;
	case UNSPECIFIED:
	case UNIX_STREAM:
		return 0;
	default:
		return -1;
	}
}

int
proxy_header_parse(const uint8_t *p, size_t n, struct peer_addr *peer, size_t *used)
{
	size_t length;

	*used = 0;
	if (n == 0)
		return 0;
	if (begins(p, n, text_signature, sizeof(text_signature)))
		return n < sizeof(text_signature) ? 0 : -1;
	if (!begins(p, n, signature, sizeof(signature)))
		return 1;
	if (n < FIXED)
		return 0;
	length = get16(p + 14);
	if ((p[12] != LOCAL && p[12] != PROXY) || FIXED + length > PROXY_HEADER_MAX)
		return -1;
	if (n < FIXED + length)
		return 0;
	if (p[12] == PROXY && take_address(p[13], p + FIXED, length, peer) == -1)
		return -1;
	*used = FIXED + length;
	return 1;
}
