/*
 * One connection to the outside, from managerd's question to its end: resolve, check, connect,
 * relay. Each step calls the next; whatever goes wrong calls dial_end(), after which it is freed.
 */
#ifndef EGRESSD_DIAL_H
#define EGRESSD_DIAL_H

#include <stdint.h>
#include <sys/queue.h>

#include <event2/event.h>
#include <event2/event_struct.h>

#include "egressd/box.h"
#include "egressd/egressd.h"
#include "egressd/look.h"
#include "egressd/resolve.h"
#include "proto/managerd_egressd.h"

#define DIAL_TRIES 6 /* addresses of one name that are connected to, one after the other */

/* One direction. What could not be sent waits in held, and nothing is read meanwhile. */
struct flow {
	struct dial *dial;
	int from, to;
	struct event readable, writable;
	uint8_t *held;
	size_t held_at, held_len, held_size;
	int64_t bytes; /* sent on */
	uint8_t ended; /* from has no more */
	uint8_t shut;  /* and to was told */
};

enum dial_state {
	DIAL_RESOLVING,
	DIAL_CONNECTING,
	DIAL_RELAYING,
	DIAL_REFUSING, /* the client was told why, and what it still sends is thrown away */
};

struct dial {
	LIST_ENTRY(dial) entry; /* of its box */
	TAILQ_ENTRY(dial) turn; /* of its box's unasked */
	struct box *box;
	uint64_t id;
	struct egress_host host;
	uint16_t port;
	enum dial_state state;
	enum look look; /* not LOOK_NOT: the first bytes are still to be seen */
	uint8_t told;   /* E_DIALED was sent */
	uint8_t any;    /* its sandbox has no list */
	uint8_t waits;  /* to be asked for: in unasked */

	struct lookup *lookup;
	struct egress_addr try[DIAL_TRIES];
	unsigned ntry, next;
	enum reason last; /* why the try before failed, or it is refused */
	const char *kind; /* of address: what it is if it is not public */
	char address[EGRESS_ADDR_TEXT];

	int inside, outside; /* -1: not open */
	struct event timer, connecting;
	struct flow out, in;
	/* microseconds of egressd_now(); 0: none */
	int64_t begun, active, step_until, look_until;
};

/* managerd's question. Takes ownership of fd. */
void dial_begin(uint64_t id, const struct m_e_dial *, const char *name, const char *list,
    size_t list_len, int fd);
/* Tells managerd what it was not told yet, closes all, and frees it. */
void dial_end(struct dial *, enum reason);
/* All connections of a sandbox. */
void dial_forget(uint64_t sandbox);
/*
 * Whether the operator's list opens an address that is not public, and the sandbox's does, too:
 * else whoever owns a name in that could lead it to all that the operator's has.
 */
int dial_opens(const struct dial *, const struct egress_addr *, int exact);
/* Resets the connection to the outside. */
void dial_cut(struct dial *);
/* Tells managerd that bytes may flow. */
void dial_connected(struct dial *);
/* Sets the timer to what is due next. */
void dial_schedule(struct dial *);

/* The next of its addresses, or the end. */
void connect_next(struct dial *);
/* The try in hand is over: the next. */
void connect_failed(struct dial *, enum reason);

/* Begins to copy both ways. */
void relay_start(struct dial *);
/* Lets go of buffers and events. */
void relay_free(struct dial *);
/* Whether the client inside has closed its end while bytes could still come for it. */
int relay_inside_gone(const struct dial *);

#endif
