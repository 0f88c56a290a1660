/* Channels: who serves which number, their credit, and requests that must wait. */
#ifndef SANDBOX_INIT_CHANNEL_H
#define SANDBOX_INIT_CHANNEL_H

#include <stddef.h>
#include <stdint.h>

#include "common/frame.h"
#include "proto/guest.h"

struct channel;

/* What serves an open channel. Any may be NULL. After close() the server still owes the final
 * frame. */
struct channel_ops {
	void (*data)(
	    struct channel *, const uint8_t *, size_t);    /* STDIN, DATA, within the credit */
	void (*data_end)(struct channel *, int64_t bytes); /* STDIN_END: bytes is -1 */
	void (*signal)(struct channel *, uint32_t signo);
	void (*kill)(struct channel *);
	void (*close)(struct channel *);
	void (*drop)(struct channel *);   /* the attachment is gone: end without a word */
	void (*credit)(struct channel *); /* there is more credit */
	int (*pump)(struct channel *);    /* send what can be sent; 1: more is at hand */
};

struct held_frame;

struct channel {
	uint16_t id;
	const struct channel_ops *ops; /* NULL: no request is being served */
	void *state;
	uint32_t out_credit;
	uint32_t in_credit;
	uint32_t in_unreturned; /* consumed, not yet given back */
	int64_t in_bytes;       /* data bytes that came */
	uint8_t *args;          /* EXEC_ARGS collected so far */
	uint32_t args_len;
	struct held_frame *held; /* frames that wait, oldest first */
	struct held_frame **held_end;
};

/* Dispatches one frame of channel 1 … GUEST_CHANNELS. */
void channel_frame(const struct frame *);
/* HELLO: every server lets go, every channel is closed. */
void channel_reset(void);
int channel_pump(void);
/* Runs the requests that waited; they may come to wait again. */
void channel_release(void);

/* Data bytes of this channel were used: their credit goes back in steps. */
void channel_consumed(struct channel *, size_t n);
/* Commits a data frame that was put to stream_reserve(). */
void channel_put(struct channel *, uint8_t type, size_t len);
/* How much one data frame may carry now. */
size_t channel_allows(const struct channel *);

void channel_started(struct channel *);
void channel_meta(struct channel *, const struct g_meta *);
/* The final frames: the channel is closed and may be used again. The text names what is wrong, for
 * the client. */
void channel_end(struct channel *, uint32_t status, int64_t bytes, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void channel_exit(struct channel *, const struct g_exit *);

/* Replaces what a client could not print (control bytes, what is not UTF-8) by '?', in place. */
void channel_clean_text(char *);

#endif
