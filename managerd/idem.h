/* Idempotency-Key: one key and body within a day is one sandbox. Pure. */
#ifndef MANAGERD_IDEM_H
#define MANAGERD_IDEM_H

#include <stdint.h>

#define IDEM_TIME_US (24LL * 3600 * 1000000)

struct idem {
	uint8_t given;
	uint8_t key[32];  /* SHA-256 of the header's value */
	uint8_t body[32]; /* SHA-256 of path and body */
	int64_t at_us;    /* wall time of the request */
};

enum idem_verdict {
	IDEM_OTHER,    /* nothing to do with each other */
	IDEM_SAME,     /* the same request again */
	IDEM_CONFLICT, /* the key was used for something else */
};

enum idem_verdict idem_judge(const struct idem *known, const struct idem *asked);

#endif
