/* The SOCKS5 proxy's messages (RFC 1928): no authentication, CONNECT only. Pure. */
#ifndef SANDBOX_INIT_PROXY_SOCKS_H
#define SANDBOX_INIT_PROXY_SOCKS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sandbox-init/ask.h"

#define SOCKS_GREETING_MAX 257
#define SOCKS_REQUEST_MAX 262
#define SOCKS_REPLY_LEN 10

enum socks_reply {
	SOCKS_OK = 0,
	SOCKS_GENERAL = 1,
	SOCKS_NOT_ALLOWED = 2,
	SOCKS_HOST_UNREACHABLE = 4,
	SOCKS_CONNECTION_REFUSED = 5,
	SOCKS_NO_COMMAND = 7,
	SOCKS_NO_ADDRESS = 8,
};

/*
 * Both take the message at the start of p[0..n): its length; 0: it is not whole; -1: this is no
 * SOCKS5.
 */
/* *fits: the client would do without authentication. */
ssize_t socks_greeting(const uint8_t *p, size_t n, int *fits);
/* *reply is SOCKS_OK and the ask filled, or what the client is to be told. */
ssize_t socks_request(const uint8_t *p, size_t n, struct ask *, enum socks_reply *reply);

void socks_answer(uint8_t out[SOCKS_REPLY_LEN], enum socks_reply);

#endif
