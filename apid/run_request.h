/* What a client wants run, checked. Pure. */
#ifndef APID_RUN_REQUEST_H
#define APID_RUN_REQUEST_H

#include "apid/json_in.h"
#include "proto/config.h"

struct language {
	const char *name;
	const char *file;        /* in /workspace */
	const char *programs[3]; /* the first one that the image has; NULL behind the last */
	const char *missing;     /* what an image without them has not */
	int image;               /* enum config_key; -1: managerd's default */
};

struct run_request {
	const struct language *language;
	const json_t *code; /* borrowed */
	json_t *egress;     /* borrowed; NULL: not given */
	uint64_t from;      /* snapshot, or 0 */
	int64_t timeout_s;  /* as it will be applied and reported */
	int64_t timeout_us;
	int64_t memory_mb;
	int64_t output_bytes;
	uint8_t snapshot;     /* keep one */
	uint8_t asked_memory; /* memory_mb was given */
};

/* 0, or -1 and why. */
int run_request_parse(json_t *body, const struct config *, struct run_request *, struct refusal *);

#endif
