/*
 * Who is at the other end: of a connection, and of a request that a proxy in front has passed on.
 * Only proxies that the configuration names are believed. Pure.
 */
#ifndef APID_PEER_H
#define APID_PEER_H

#include <stddef.h>
#include <stdint.h>

struct keys_net;
struct sockaddr;

#define PEER_TEXT 56

struct peer_addr {
	uint8_t addr[16];     /* IPv4 as ::ffff:a.b.c.d; all zeros: not known */
	uint16_t port;        /* 0: not known */
	char text[PEER_TEXT]; /* "192.0.2.1:80", "[2001:db8::1]:80"; without a port the address */
};

/* The proxies that are believed. */
struct peer_trust {
	struct keys_net *nets;
	size_t count;
};

void peer_set(struct peer_addr *, const uint8_t addr[16], uint16_t port);
/* Of a family that is not known it is "?". */
void peer_set_sockaddr(struct peer_addr *, const struct sockaddr *);
/* list: addresses and CIDRs, comma-separated, as config/check.c has let them through. Fatal when
 * out of memory. */
void peer_trust_init(struct peer_trust *, const char *list);
int peer_is_trusted(const struct peer_trust *, const struct peer_addr *);
/*
 * head: the lines of a request's head that has been parsed. If p is trusted, it becomes the one
 * that X-Forwarded-For names: the rightmost address that is no trusted proxy's. Where the field
 * cannot be read it stays with what it had come to.
 */
void
peer_forwarded(const char *head, size_t n, const struct peer_trust *trust, struct peer_addr *p);

#endif
