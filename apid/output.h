/* The output of a command on its way into JSON: as it comes, or kept up to a limit. */
#ifndef APID_OUTPUT_H
#define APID_OUTPUT_H

#include <stdint.h>

#include "apid/json_out.h"

struct evbuffer;
struct req;

/* Text of one of the two streams. All zero at the start, but for as_base64. */
struct output {
	struct utf8 utf8;
	struct base64 base64;
	int as_base64;
};

/* Both return how many bytes were written. */
size_t output_add(struct output *, struct evbuffer *, const void *p, size_t n);
size_t output_end(struct output *, struct evbuffer *);

/* Both streams, escaped already, of at most max bytes together. */
struct capture {
	struct evbuffer *text[2]; /* stdout, stderr */
	struct output output[2];
	int64_t max, kept, omitted; /* bytes */
	uint8_t cut[2];             /* something of this stream was omitted */
};

void capture_init(struct capture *, int64_t max, int as_base64);
void capture_free(struct capture *);
/* What does not fit in the limit, or in what all requests may keep, is counted and forgotten. */
void capture_add(struct capture *, struct req *, int which, const uint8_t *p, size_t n);
/* The members "stdout" and "stderr". A text that was cut ends with its last whole character. */
void capture_write(struct capture *, struct evbuffer *out);

#endif
