/*
 * The header by which a proxy tells, before the first byte of a connection, who is at its other
 * end: the PROXY protocol, version 2. Pure.
 */
#ifndef APID_PROXY_HEADER_H
#define APID_PROXY_HEADER_H

#include <stddef.h>
#include <stdint.h>

#include "apid/peer.h"

#define PROXY_HEADER_MAX 4096 /* longer ones are malformed */

/*
 * p[0..n) is what has come of a connection. 1: *used bytes of it are the header (0: there is none),
 * and the peer is the one that it names, unless it names none. 0: more bytes are needed.
 * -1: malformed, or version 1, which is text.
 */
int proxy_header_parse(const uint8_t *p, size_t n, struct peer_addr *, size_t *used);

#endif
