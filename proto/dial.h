/*
 * Connections that leave a sandbox, in the words that all programs on their way share: sandbox-init
 * asks (G_DIAL), sessiond hands the question on with one end of a stream socket (S_DIAL), managerd
 * passes both to egressd (E_DIAL), which alone decides.
 *
 * The socket carries the connection's bytes and nothing else. Nothing is written to it before the
 * verdict is DIAL_OK. Who has no more to send shuts its direction down and keeps the socket open
 * until the other direction has ended too. Who closes it while the other direction is still open,
 * or has bytes unread, aborts the connection: the other end (POLLHUP with its own direction open,
 * ECONNRESET, EPIPE) resets what it has on its side.
 */
#ifndef PROTO_DIAL_H
#define PROTO_DIAL_H

#define DIAL_NAME_MAX 255 /* bytes of a host name or address, as the client inside said it */
#define DIAL_TEXT_MAX 256 /* bytes of the reason, fit for the client inside */

/* A list as it travels: its entries in canonical form, joined by '\n'. */
#define EGRESS_ENTRIES_MAX 256
#define EGRESS_TEXT_MAX 16384

/* What the client inside spoke. */
enum dial_how {
	DIAL_CONNECT, /* CONNECT to the HTTP proxy */
	DIAL_SOCKS,   /* SOCKS5 */
	DIAL_DIRECT,  /* to the loopback address that the name has inside */
	DIAL_HTTP,    /* an absolute URL to the HTTP proxy: one request in origin form follows */
};

enum dial_verdict {
	DIAL_OK,      /* connected: bytes may flow */
	DIAL_REFUSED, /* it may not be */
	DIAL_FAILED,  /* it may be, but could not */
};

#endif
