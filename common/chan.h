/*
 * Control channels between our own programs: one SOCK_SEQPACKET packet is one message
 * {header, fixed struct, bounded tail} with at most one file descriptor. What may be said on a
 * channel is a table (proto/<a>_<b>.h); this file is the mechanism. A peer that breaks the table's
 * rules is a bug of ours or an attack: fatal. No libevent here, since the parent does not link it;
 * chan_event.h has the glue for programs that do.
 */
#ifndef COMMON_CHAN_H
#define COMMON_CHAN_H

#include <stddef.h>
#include <stdint.h>

#define MSG_MAX 65536 /* bytes of a packet, header included */

/* Who speaks: the value of the "from" column. */
enum peer { PARENT = 1, CHILD, APID, MANAGERD, DOCKERD_PROXY, SESSIOND, EGRESSD, KEYD };

enum fd_rule { FD_NONE, FD_MUST, FD_MAY };

struct msg_header {
	uint32_t type;
	uint32_t len; /* of the whole packet */
	uint64_t id;  /* pairs a reply with its request */
};

struct msg_spec {
	uint32_t type;
	uint8_t from; /* enum peer */
	uint8_t fd;   /* enum fd_rule */
	uint32_t fixed;
	uint32_t tail; /* maximum */
	const char *name;
};

struct chan_proto {
	const char *name; /* "apid-managerd" */
	const struct msg_spec *specs;
	size_t nspecs;
};

/* A received message. Everything is valid only during the handler; an fd that was not taken is
 * closed after it. */
struct msg {
	uint32_t type;
	uint64_t id;
	const void *payload; /* spec->fixed bytes, aligned to 8 */
	const char *tail;    /* tail_len bytes; a NUL stands behind them and is not counted */
	size_t tail_len;
	int fd; /* -1: none */
};

struct chan;

/* Called for each message that passed the table. */
typedef void (*chan_handler)(struct chan *, struct msg *);
/* Called once when the peer has gone. The channel may be freed in it. */
typedef void (*chan_gone)(struct chan *);
/*
 * Called when what the channel waits for changes: nothing, writability, or (the kernel is short of
 * something and the socket is writable all the time) a few milliseconds. Then call chan_writable().
 */
enum chan_want { CHAN_WANT_NOTHING, CHAN_WANT_WRITE, CHAN_WANT_LATER };
typedef void (*chan_want_write)(struct chan *, int);
/* Called once, before the socket is closed or when the peer has gone: the event loop must forget
 * the socket. */
typedef void (*chan_detach)(struct chan *);

/* Takes ownership of fd (made non-blocking). arg is for the owner: chan_arg(). Returns NULL with
 * errno (ENOMEM). */
struct chan *chan_new(int fd, const struct chan_proto *proto, enum peer self, enum peer other,
    chan_handler handler, chan_gone gone, void *arg);
/* Closes the socket and all queued fds. NULL is allowed. Safe inside the channel's own callbacks.
 */
void chan_free(struct chan *);
void *chan_arg(const struct chan *);
int chan_fd(const struct chan *);
void chan_on_want_write(struct chan *, chan_want_write, void *arg2);
void *chan_arg2(const struct chan *);
void chan_on_detach(struct chan *, chan_detach);

/*
 * For a peer whose misbehaviour must cost only itself: called once instead of fatalx() when it
 * breaks the table. The channel may be freed in it; if it is not, nothing more is read from it.
 */
typedef void (*chan_breach)(struct chan *, const char *why);
void chan_on_breach(struct chan *, chan_breach);

/*
 * Queues one packet and tries to send it. Takes ownership of fd in every case. A message that does
 * not fit its own row is a bug: fatalx. Never blocks; EAGAIN, ENOBUFS and ETOOMANYREFS keep the
 * packet queued.
 */
void chan_send(struct chan *, uint32_t type, uint64_t id, const void *payload, size_t len,
    const void *tail, size_t tail_len, int fd);
/* Reads and dispatches what is there (at most a bounded number of packets). Call when readable. */
void chan_readable(struct chan *);
/* The same for one packet: 1 when one was handled, 0 when there is none now, -1 when the channel is
 * over or freed. */
int chan_read_one(struct chan *);
/* Sends what is queued. Call when writable. */
void chan_writable(struct chan *);
/* Unsent packets. Above CHAN_HIGH a program takes no new outside work until it is below CHAN_LOW
 * again. */
size_t chan_queued(const struct chan *);
#define CHAN_HIGH 1024
#define CHAN_LOW 256
/* Beyond, the peer hangs or somebody asks without limit: chan_send() ends the program. */
#define CHAN_QUEUE_BYTES (64u << 20)
#define CHAN_QUEUE_PACKETS (64u << 10)

/*
 * For who answers: while more than CHAN_ANSWERS_MAX bytes or CHAN_ANSWERS_PACKETS packets wait for
 * the peer nothing is read from it, so that one who asks faster than it reads waits for itself.
 * Only one side of a channel may do so, or both could wait for ever. Called when that begins (1)
 * and ends (0).
 */
typedef void (*chan_hold)(struct chan *, int);
void chan_on_hold(struct chan *, chan_hold);
#define CHAN_ANSWERS_MAX (4u << 20)
#define CHAN_ANSWERS_PACKETS (16u << 10)

int msg_take_fd(struct msg *); /* -1 if there is none (left) */

/* The one gate: NULL, or the reason why this packet breaks the table. Pure; used by chan_readable()
 * and by tests. */
const char *chan_check(const struct chan_proto *, enum peer from, uint32_t type, size_t body_len,
    int nfds, const struct msg_spec **spec);

/* For texts. */
const char *chan_peer_name(enum peer);
const char *chan_message_name(const struct chan_proto *, uint32_t type); /* "?" if there is none */

/*
 * What a proto header says with its X-macro LIST(X), rows X(from, NAME, payload, tail, fd):
 * the enum MSG_NAME, size asserts, the table of struct msg_spec, and send_NAME(chan, id, &payload,
 *tail, tail_len, fd). A program handles what its peer may say, and nothing else, with one switch; a
 *missing handler does not link:
 *
 *	#define CASE_APID(name, pay) CHAN_CASE(name, pay)
 *	#define CASE_MANAGERD(name, pay)
 *	#define HANDLER_APID(name, pay) CHAN_HANDLER(name, pay)
 *	#define HANDLER_MANAGERD(name, pay)
 *	APID_MANAGERD(CHAN_X_HANDLER)           declares on_GET(struct chan *, const struct m_id *,
 *struct msg *) ...
 *
 *	static void
 *	on_GET(struct chan *c, const struct m_id *p, struct msg *m)
 *	{
 *		send_REPLY(c, m->id, &(struct m_reply){.status = 404}, "no such sandbox", 15, -1);
 *	}
 *
 *	static void
 *	dispatch(struct chan *c, struct msg *m)  the chan_handler; the names c and m are fixed
 *	{
 *		switch (m->type) {
 *			APID_MANAGERD(CHAN_X_CASE)
 *		}
 *	}
 */
#define CHAN_X_ENUM(from, name, pay, tl, fdr) MSG_##name,
#define CHAN_X_SPEC(from, name, pay, tl, fdr) {MSG_##name, from, fdr, sizeof(pay), tl, #name},
#define CHAN_X_ASSERT(from, name, pay, tl, fdr)                                                 \
	_Static_assert(                                                                         \
	    sizeof(struct msg_header) + sizeof(pay) + (tl) <= MSG_MAX, #name ": over MSG_MAX"); \
	_Static_assert(sizeof(pay) % 8 == 0, #name ": pad the payload to 8 bytes");
#define CHAN_X_SEND(from, name, pay, tl, fdr)                                                     \
	static inline void send_##name(                                                           \
	    struct chan *c, uint64_t id, const pay *p, const void *tail, size_t tail_len, int fd) \
	{                                                                                         \
		chan_send(c, MSG_##name, id, p, sizeof(*p), tail, tail_len, fd);                  \
	}
/* One case per message that the peer `P` may send: expands CASE_<from>(name, payload) of the
 * including file. */
#define CHAN_X_CASE(from, name, pay, tl, fdr) CASE_##from(name, pay)
#define CHAN_CASE(name, pay)                 \
	case MSG_##name:                     \
		on_##name(c, m->payload, m); \
		break;
#define CHAN_X_HANDLER(from, name, pay, tl, fdr) HANDLER_##from(name, pay)
#define CHAN_HANDLER(name, pay) static void on_##name(struct chan *, const pay *, struct msg *);

#endif
