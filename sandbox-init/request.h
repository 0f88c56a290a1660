/* What READ, WRITE, LIST, EXPORT and IMPORT have in common: their request and how a failure is
 * told. */
#ifndef SANDBOX_INIT_REQUEST_H
#define SANDBOX_INIT_REQUEST_H

#include <stddef.h>
#include <stdint.h>

#include "proto/guest.h"
#include "proto/job.h"

struct channel;

struct request {
	struct g_file f;
	char path[PATH_TAIL_MAX + 1];
};

/* Pure. 0, or -1 when the payload is not a struct g_file with an absolute path without NUL behind
 * it. */
int request_parse(const uint8_t *data, size_t len, struct request *);
/* The resolve.h flags that the request asks for. */
int request_resolve_flags(const struct request *);
/* The status of END for an errno; and its text for the client. */
uint32_t request_status(int error);
const char *request_reason(int error);
/* Ends the channel with both: "PATH: reason". */
void request_fail(struct channel *, const char *path, int error);

/*
 * Which bytes of a file of that size are asked for: 200, 413 when they are more than f->max, or
 * 416. Pure.
 */
uint32_t request_range(const struct g_file *f, int64_t size, int64_t *first, int64_t *length);

#endif
