/*
 * A request that is served over a data socket: managerd lets it through (or refuses), then records
 * come until one is the last. This is the part that all such requests share. struct xfer is the
 * first member of the handler's state.
 */
#ifndef APID_XFER_H
#define APID_XFER_H

#include "apid/data.h"
#include "apid/req.h"

struct xfer;

struct xfer_ops {
	/* Every record but ERROR. */
	void (*record)(struct xfer *, uint8_t type, const uint8_t *p, size_t n);
	/* managerd has let it through; may be NULL. */
	void (*accepted)(struct xfer *);
	/* It was refused or failed before the head of the answer is out. 1: dealt with; else, and
	 * when it is NULL, that is the answer. */
	int (*failed)(struct xfer *, int status, const char *text, size_t n);
	/* What was written has gone out; may be NULL. */
	void (*drained)(struct xfer *);
	/* It ends with an error after the head of the answer is out; NULL: cut the connection. */
	void (*broken)(struct xfer *, const char *text, size_t n);
};

struct xfer {
	struct req *r;
	const struct xfer_ops *ops;
	struct data *data;
	uint64_t call;
	uint8_t accepted;
	uint8_t ended; /* end of file came before managerd's word */
	uint8_t upload_type;
	void (*upload_end)(struct xfer *);
};

/* Prepares call and data socket; *fd is the end to send. x may be one that was closed. -1: the
 * request was answered with 503. */
int xfer_open(struct xfer *, struct req *, const struct xfer_ops *, int *fd);
void xfer_close(struct xfer *);
/* The other side broke the rules of proto/data.h. */
void xfer_nonsense(struct xfer *);
/* Writes to the client and stops reading records while it is slow. Takes all of out. */
void xfer_write(struct xfer *, struct evbuffer *out);
/* Sends the body of the request as records of this type, with back-pressure; calls end() behind the
 * last byte. */
void xfer_upload(
    struct xfer *, uint8_t type, uint64_t max, const char *too_large, void (*end)(struct xfer *));
/* For ops.drained of whoever uploads. */
void xfer_uploaded(struct xfer *);

#endif
