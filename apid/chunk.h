/* The chunked transfer coding, decoded strictly and step by step. Pure. */
#ifndef APID_CHUNK_H
#define APID_CHUNK_H

#include <stddef.h>
#include <stdint.h>

#define CHUNK_LINE_MAX 1024    /* of a size or trailer line, CRLF not counted */
#define CHUNK_TRAILER_MAX 8192 /* bytes of all trailer lines */

enum chunk_state { CHUNK_SIZE, CHUNK_DATA, CHUNK_DATA_END, CHUNK_TRAILER, CHUNK_OVER };

/* All zero at the start of a body. */
struct chunk {
	uint8_t state;    /* enum chunk_state */
	uint32_t trailer; /* bytes of trailers so far */
	uint64_t left;    /* CHUNK_DATA: bytes of this chunk still to come */
};

enum chunk_step { STEP_MORE, STEP_LINE, STEP_DATA, STEP_OVER, STEP_BAD };

/*
 * Looks at p[0..n), which must reach CHUNK_LINE_MAX + 2 bytes where the peer has sent as many, and
 * sets *used to what it has consumed. STEP_MORE: more bytes are needed. STEP_LINE: go on.
 * STEP_DATA: the *used bytes are data, go on. STEP_OVER: the body is complete. STEP_BAD: malformed,
 * the connection cannot be used any more.
 */
enum chunk_step chunk_step(struct chunk *, const char *p, size_t n, size_t *used);

#endif
