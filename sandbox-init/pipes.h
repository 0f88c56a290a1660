/* Pipes between a channel and a process: feed = inwards (stdin, a tar to unpack), source = outwards
 * (output, a tar). */
#ifndef SANDBOX_INIT_PIPES_H
#define SANDBOX_INIT_PIPES_H

#include <stddef.h>
#include <stdint.h>

#include "sandbox-init/loop.h"
#include "sandbox-init/mem.h"

struct channel;

/* Credit goes back as the pipe takes the bytes; when its reader has gone they are thrown away and
 * credit still goes back. */
struct feed {
	struct channel *ch;
	struct watch watch;
	struct mem_queue queue;
	int fd; /* -1: closed */
	int ended;
};

/* Takes ownership of fd (non-blocking). fd -1 discards everything. */
void feed_open(struct feed *, struct channel *, int fd);
void feed_push(struct feed *, const uint8_t *data, size_t len);
/* No more comes: the pipe is closed when the queue is empty. */
void feed_end(struct feed *);
void feed_close(struct feed *);

/* Reads only while there is credit and room in the stream. */
struct source {
	struct channel *ch;
	struct watch watch;
	int fd;        /* -1: at its end */
	int64_t left;  /* bytes still to be read; -1: until end of file */
	int64_t bytes; /* read so far */
	uint8_t type;  /* of its frames */
	uint8_t held;  /* nothing is read yet */
	void (*done)(void *arg);
	void *arg;
};

/* Takes ownership of fd (non-blocking). done is called once, when the end is reached; the source
 * may be freed in it. */
void source_open(
    struct source *, struct channel *, int fd, uint8_t type, void (*done)(void *), void *arg);
/* There is more credit. */
void source_credit(struct source *);
/* The writer that counts has ended: only what is in the pipe now is still sent. */
void source_drain(struct source *);
void source_close(struct source *);
/*
 * As source_close(), but when somebody else still writes into the pipe, goes on reading it and
 * throws that away, so that a job in the background is not ended by SIGPIPE.
 */
void source_leave(struct source *);

#endif
