/* The host that a plain HTTP/1 request is for. Pure functions over bytes that a sandbox sent. */
#ifndef EGRESSD_HTTP_H
#define EGRESSD_HTTP_H

#include <stddef.h>
#include <stdint.h>

enum http_result {
	HTTP_MORE, /* the head is not whole yet */
	HTTP_BAD,  /* it is no request, or one that could be read in two ways */
	HTTP_HOST, /* host is what it asks for */
};

struct http_host {
	const char *host; /* host[:port] in the bytes given, of the Host header */
	size_t len;
	const char *target; /* likewise, of an absolute target; len 0: it has none */
	size_t target_len;
};

/* p[0..n): everything sent so far, from the first byte. */
enum http_result http_head(const uint8_t *p, size_t n, struct http_host *);

#endif
