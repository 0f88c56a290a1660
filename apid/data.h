/* A data socket: records to and from the session that runs a command or moves a file
 * (proto/data.h). */
#ifndef APID_DATA_H
#define APID_DATA_H

#include <stddef.h>
#include <stdint.h>

#include "proto/data.h"

struct data;
struct evbuffer;

struct data_ops {
	void (*record)(void *arg, uint8_t type, const uint8_t *p, size_t n);
	void (*end)(void *arg);       /* end of file, an error, or nonsense: once, the last call */
	void (*malformed)(void *arg); /* nonsense, before that; may be NULL */
	void (*drained)(void *arg); /* what the socket did not take at once is sent; may be NULL */
};

/* Makes the pair; *other is the end to hand on. NULL when there are no descriptors left. */
struct data *data_new(const struct data_ops *, void *arg, int *other);
/* Safe inside the callbacks. NULL is allowed. */
void data_free(struct data *);
void data_send(struct data *, uint8_t type, const void *p, size_t n);
/* Takes n <= RECORD_MAX bytes of src. */
void data_move(struct data *, uint8_t type, struct evbuffer *src, size_t n);
/* Above 0: produce no more until it is drained. The kernel's buffer is window enough. */
size_t data_unsent(const struct data *);
/* Stops or goes on reading. */
void data_pause(struct data *, int on);

/* For records that are all there before the other end has started: the end to hand on, or -1. */
int data_prewritten(struct evbuffer *);
void data_record_header(struct evbuffer *, uint8_t type, size_t n);

#endif
