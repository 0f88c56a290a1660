/*
 * The stream to and from the sandbox: attaching, the engine's framing, whole frames. What comes out
 * of it is hostile; channel.c decides what a frame may do.
 */
#ifndef SESSIOND_GUEST_H
#define SESSIOND_GUEST_H

#include <stddef.h>
#include <stdint.h>

#include <event2/event.h>
#include <event2/event_struct.h>

#include "common/frame.h"
#include "proto/guest.h"
#include "sessiond/buf.h"
#include "sessiond/stdcopy.h"

#define GUEST_OUT_HIGH \
	(256 * 1024) /* above: clients are not read, no request begins, no credit goes back */
#define GUEST_OUT_LOW (64 * 1024)
/* Above: the guest asks and does not read the answers. Clients' requests never make it so much. */
#define GUEST_OUT_MAX (2 * 1024 * 1024)

struct session;

struct guest {
	int fd; /* -1: none */
	uint32_t framing;
	struct event ev_read;
	struct event ev_write;
	struct event ev_deadline; /* of HELLO_ACK */
	struct stdcopy stdcopy;
	uint64_t nonce;
	uint8_t *in;
	size_t in_len;
	size_t in_cap;
	struct buf out;
	uint8_t full; /* out went above its high mark and is not yet below the low one */
	uint8_t broken;
	int64_t second_us; /* the second in which budget holds */
	uint32_t budget;   /* what control frames may still cost in it */
};

/* Takes fd, sends padding and HELLO, and from then on reads. */
void guest_attach(struct session *, int fd, uint32_t framing);
void guest_close(struct session *);
/* There are no jobs and no dials: gives back memory that only traffic needs. Not to be called while
 * a frame is handled. */
void guest_idle(struct session *);

/* Queues one frame. guest_flush() sends. */
void guest_send(struct session *, uint8_t type, uint16_t channel, const void *p, uint32_t len);
/* As guest_send(), but large ones go to the stream at once. */
void guest_send_data(struct session *, uint8_t type, uint16_t channel, const void *p, uint32_t len);
void guest_flush(struct session *);
int guest_full(const struct session *);

/*
 * Handles n bytes as if they had been received. NULL, or why the guest broke its protocol: then the
 * caller must end the session. The entry of the fuzz target.
 */
const char *guest_feed(struct session *, const uint8_t *p, size_t n);

/*
 * Looks for HELLO_ACK with this nonce in p[0..n). 1: found, *used is behind it; 0: not yet, *used
 * bytes are of no use. Pure.
 */
int guest_sync(const uint8_t *p, size_t n, uint64_t nonce, struct g_hello *ack, size_t *used);

/* Takes cost from what control frames may cost in one second; -1: too many. */
#define GUEST_BUDGET 100000
int guest_charge(struct guest *, uint32_t cost);

#endif
