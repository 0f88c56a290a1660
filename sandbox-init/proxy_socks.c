/* Reads and writes SOCKS5. */
#include <arpa/inet.h>
#include <string.h>

#include "sandbox-init/proxy_socks.h"

#define VERSION_5 5
#define CONNECT 1

enum { ATYP_IPV4 = 1, ATYP_NAME = 3, ATYP_IPV6 = 4 };

ssize_t
socks_greeting(const uint8_t *p, size_t n, int *fits)
{
	if (n >= 1 && p[0] != VERSION_5)
		return -1;
	if (n < 2 || n < 2U + p[1])
		return 0;
	*fits = memchr(p + 2, 0, p[1]) != NULL;
	return 2 + p[1];
}

static void
set_address(struct ask *a, int family, const uint8_t *p)
{
	char text[INET6_ADDRSTRLEN] = "";

	inet_ntop(family, p, text, sizeof(text));
	a->name_len = (uint16_t)strlen(text);
	memcpy(a->name, text, a->name_len);
}

ssize_t
socks_request(const uint8_t *p, size_t n, struct ask *a, enum socks_reply *reply)
{
	size_t address, at = 4;

	if ((n >= 1 && p[0] != VERSION_5) || (n >= 3 && p[2] != 0))
		return -1;
	if (n < 5)
		return 0;
	switch (p[3]) {
	case ATYP_IPV4:
		address = 4;
		break;
	case ATYP_NAME:
		address = p[4];
		at = 5;
		break;
	case ATYP_IPV6:
		address = 16;
		break;
	default:
		*reply = SOCKS_NO_ADDRESS;
		return 5; /* what follows cannot be told apart */
	}
	if (n < at + address + 2)
		return 0;
	a->how = DIAL_SOCKS;
	a->port = (uint16_t)(p[at + address] << 8 | p[at + address + 1]);
	if (p[3] == ATYP_NAME) {
		a->name_len = (uint16_t)address;
		memcpy(a->name, p + at, address);
	} else {
		set_address(a, p[3] == ATYP_IPV4 ? AF_INET : AF_INET6, p + at);
	}
	*reply = p[1] != CONNECT                    ? SOCKS_NO_COMMAND
		 : a->port == 0 || a->name_len == 0 ? SOCKS_GENERAL
						    : SOCKS_OK;
	return (ssize_t)(at + address + 2);
}

/* The address that we are bound to is nobody's business: zeros. */
void
socks_answer(uint8_t out[SOCKS_REPLY_LEN], enum socks_reply reply)
{
	memset(out, 0, SOCKS_REPLY_LEN);
	out[0] = VERSION_5;
	out[1] = (uint8_t)reply;
	out[3] = ATYP_IPV4;
}
