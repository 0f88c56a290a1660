/* The server name in a TLS ClientHello. Pure functions over bytes that a sandbox sent. */
#ifndef EGRESSD_TLS_H
#define EGRESSD_TLS_H

#include <stddef.h>
#include <stdint.h>

/* Whether a first byte can begin a TLS record, or SSLv2's way to begin TLS. */
int tls_begins(const uint8_t *p, size_t n);

enum tls_result {
	TLS_MORE, /* the hello is not whole yet */
	TLS_BAD,  /* it is none, or one that could be read in two ways */
	TLS_NAME, /* name is what it asks for */
	TLS_NONE, /* it names no server */
};

struct tls_name {
	size_t len;
	uint8_t name[256];
};

/* p[0..n): everything sent so far, from the first byte, however it is cut into records. */
enum tls_result tls_hello(const uint8_t *p, size_t n, struct tls_name *);

#endif
