/*
 * Our end of a data socket (proto/data.h): reads records, writes records, keeps what the socket
 * does not take. Knows nothing of what the records mean; its owner gets the events.
 */
#ifndef SESSIOND_DATA_H
#define SESSIOND_DATA_H

#include <stddef.h>
#include <stdint.h>

#include <event2/event.h>
#include <event2/event_struct.h>

#include "sessiond/buf.h"

#define DATA_NO_HEAD SIZE_MAX

struct data {
	int fd;               /* -1: none, or closed */
	struct event ev_read; /* always pending */
	struct event ev_write;
	struct buf in;
	struct buf out;
	size_t taken;      /* bytes of the record at the front of in that were used */
	size_t head;       /* where in out the last record begins, if it can still grow */
	uint32_t pending;  /* bytes in out that came from the guest's credit */
	uint32_t released; /* such bytes that have left us; for the owner to give back and zero */
	uint8_t finishing; /* the last record is queued */
	uint8_t shut;
	uint8_t deaf; /* the peer reads no more, but what it sent is still wanted */
};

enum data_got { DATA_RECORD, DATA_AGAIN, DATA_EOF, DATA_BAD };

struct data_record {
	uint8_t type;
	const uint8_t *p;
	size_t len;
};

/* Whether fd is a stream socket of this machine. */
int data_is_stream(int fd);
/*
 * Takes fd. on_read is called once whenever bytes have come or the peer has closed, also while
 * nobody reads: the owner reads until data_next() says DATA_AGAIN, or by itself when it can again.
 * Both callbacks get arg.
 */
void data_open(struct data *, struct event_base *, int fd, event_callback_fn on_read,
    event_callback_fn on_write, void *arg);
/* Whether the peer has closed its end; what it sent before may still be unread. */
int data_hangup(const struct data *);
/* Closes and forgets everything; what was pending counts as released. */
void data_close(struct data *);
/* Drops what is queued and all that will be; reading goes on. */
void data_deafen(struct data *);

/* The next record, or what is left of it, of at most max bytes; reads from the socket when there is
 * none whole. */
enum data_got data_next(struct data *, size_t max, struct data_record *);
/* Says that n bytes of that record were used. */
void data_take(struct data *, size_t n);

/*
 * Queues one record: fixed part, then bytes. credited: its bytes use the guest's credit; such
 * records of one type are joined while they wait, and large ones go to the socket at once. Without
 * a reader all is dropped and released.
 */
void data_put(struct data *, uint8_t type, const void *fixed, size_t fixed_len, const void *p,
    size_t n, int credited);
/* Counts n bytes of the guest's credit as held by what was queued last. */
void data_charge(struct data *, uint32_t n);
/* Sends what the socket takes. -1: the peer has gone. Arms on_write while something is left. */
int data_flush(struct data *);
/* After the last record: flushes, then tells the peer that nothing follows. -1 as data_flush(). */
int data_finish(struct data *);
/* Reads and forgets; 1: end of file. */
int data_discard(struct data *);

#endif
