/* The gate over TLS: the second kind of connection, and where it differs from the plain one. */
#ifndef APID_GATE_TLS_H
#define APID_GATE_TLS_H

#include "apid/gate.h"

struct event_base;

/* The connection's bufferevent; its handshake begins when it has a socket. */
struct bufferevent *gate_tls_new(struct event_base *, struct conn *);
/* The client is a proxy that may say, before the handshake, who is behind it (tls_bio.c). */
void gate_tls_proxied(struct conn *);
/* What libevent tells of it: only noted, the kick acts. */
void gate_tls_event(struct conn *, short what);
/* What waits goes out in whole records. */
void gate_tls_gather(struct conn *);
/* Says to the client that this is all. -1: the socket takes it later. */
int gate_tls_close(struct conn *);

#endif
