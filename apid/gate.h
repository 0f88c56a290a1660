/*
 * The gate: between the sockets and evhttp. It takes every byte that comes in, checks the head of a
 * request strictly, and shows evhttp only a constant line of its own; bodies never reach evhttp,
 * which is left with writing answers. Time limits, the number of connections and the end of each
 * are decided here.
 */
#ifndef APID_GATE_H
#define APID_GATE_H

#include <event2/util.h>
#include <sys/queue.h>

#include "apid/chunk.h"
#include "apid/req.h"

struct bufferevent;
struct event;
struct event_base;
struct evhttp_connection;

#define RAW_HIGH (64 * 1024) /* input that waits: read no more */
#define SKIP_MAX (64 * 1024) /* of a body that nobody wants, to keep the connection */

enum gate_state { GATE_HEAD, GATE_BODY, GATE_WAIT, GATE_CLOSING };

struct conn {
	struct req r;
	TAILQ_ENTRY(conn) entry;
	struct bufferevent *bev;
	struct evhttp_connection *evcon;
	void (*written)(struct bufferevent *, void *); /* over TLS: evhttp's */
	struct event *kick;                            /* runs the rest outside of callbacks */
	struct evbuffer *raw;
	char *text;         /* the head that the request's slices point into */
	struct ssl_st *ssl; /* NULL: plain */
	evutil_socket_t fd;
	uint8_t state;   /* enum gate_state */
	uint8_t busy;    /* we ourselves change the input buffer */
	uint8_t proxied; /* a header of the PROXY protocol may come first */
	uint8_t metrics; /* came to AGENT_SANDBOX_METRICS_LISTEN */
	uint8_t accepted, paused;
	uint8_t eof;    /* the client has closed its side */
	uint8_t shut;   /* we have closed ours */
	uint8_t doomed; /* to be freed by the kick */
	uint8_t tell_drained;
	uint8_t handshaken;      /* TLS: the handshake is over */
	uint8_t broken;          /* TLS: nothing can be sent any more */
	uint64_t left, got, max; /* of the body */
	const char *too_large;
	struct chunk chunk;
	uint32_t since;      /* HEAD: idle since, or first byte; CLOSING: lingering since */
	uint32_t rate_since; /* of the body */
	uint64_t rate_got;
	uint32_t out_since;    /* last progress of the output */
	struct peer_addr peer; /* of the connection; a proxy's header may have named it */
	TAILQ_ENTRY(conn) of_origin;
	struct origin *origin; /* places.c */
};

/* fd: the listening socket, perhaps not listening yet. Made before the confinement, runs on the
 * base afterwards. */
void gate_init(struct event_base *, int fd);
/* From now on connections are taken. Who came before waits: after a restart the socket listens from
 * the start, and without certificates a client of TLS would be taken for one of plain HTTP. */
void gate_open(void);
/* No new connection; what runs is answered with an error. Calls done when the last connection has
 * ended. */
void gate_going_down(void (*done)(void));
size_t gate_connections(void);

/* For req.c. */
void gate_body_accept(struct conn *, uint64_t max, const char *too_large);
void gate_body_pause(struct conn *, int on);
/*
 * An answer comes before the body was read: takes what is there. Returns 1 when that is all of it,
 * 0 when the connection has to be closed behind the answer, -1 when the body is malformed.
 */
int gate_body_skip(struct conn *);
/* After every call that sends: takes back the callbacks that evhttp has set. */
void gate_sent(struct conn *);
size_t gate_unsent(const struct conn *);
/* Ends the connection soon, without another byte. */
void gate_doom(struct conn *);

#endif
