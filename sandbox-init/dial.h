/*
 * Connections out of the sandbox: a client inside on one side, a DIAL channel of the guest stream
 * on the other (proto/guest.h). front.c speaks with the client until it is clear where it wants to
 * go.
 */
#ifndef SANDBOX_INIT_DIAL_H
#define SANDBOX_INIT_DIAL_H

#include <stddef.h>
#include <stdint.h>

#include "common/frame.h"
#include "sandbox-init/ask.h"
#include "sandbox-init/loop.h"
#include "sandbox-init/mem.h"

enum dial_front { FRONT_HTTP, FRONT_SOCKS, FRONT_DIRECT };

enum dial_phase {
	PHASE_HEAD,   /* the client says where it wants to go */
	PHASE_ASKING, /* DIAL was sent, the verdict is awaited */
	PHASE_OPEN,
	PHASE_TELLING, /* the client gets its last bytes from us */
	PHASE_OVER,    /* it has gone; the channel is still to be closed */
};

struct dial {
	uint16_t channel;
	uint8_t front;   /* enum dial_front */
	uint8_t phase;   /* enum dial_phase */
	uint8_t how;     /* enum dial_how, since ASKING */
	uint8_t greeted; /* SOCKS: the greeting is over */

	int fd; /* the client; -1: gone */
	struct watch reading, writing;
	struct timer timer;
	struct mem_queue in;  /* from the client, to be read or sent on */
	struct mem_queue out; /* for the client */
	size_t own;           /* bytes at the front of out that are ours, not the channel's */

	uint32_t out_credit, in_credit, in_unreturned;
	uint32_t window; /* of what comes in: given, or not yet returned */
	uint8_t opened;  /* DIAL was sent */
	uint8_t sent_end, got_end, sent_close, got_close;
	uint8_t in_ended; /* the client sends no more */
	uint8_t shut;     /* the client was told that no more comes */
};

/* A client has come: fd is its socket, not blocking. NULL, and fd is closed: there is no room. */
struct dial *dial_new(int fd, enum dial_front);
/* How many there may still be. */
unsigned dial_room(void);
/* Opens the channel. */
void dial_ask(struct dial *, const struct ask *);
/* The client gets what is in out, then the end. The dial may be gone. */
void dial_tell(struct dial *);
/* Ends it at once: the client's connection is reset, the channel closed. The dial may be gone. */
void dial_abort(struct dial *);
/* Bytes of ours for the client. */
void dial_put(struct dial *, const void *, size_t n);

/* A frame of one of the channels. */
void dial_frame(const struct frame *);
/* HELLO: all are dropped. */
void dial_reset(void);

/* front.c: the client can be read, in PHASE_HEAD. The dial may be gone. */
void front_read(struct dial *);
/* The verdict: tells the client. 1: bytes may flow; 0: it was the end, and the dial may be gone. */
int front_verdict(struct dial *, uint32_t verdict, const char *text, size_t len);
/* Time is up. Likewise. */
void front_late(struct dial *);

#endif
