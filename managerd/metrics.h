/* What managerd counts, and its part of GET /metrics: numbers, of which apid makes the text. */
#ifndef MANAGERD_METRICS_H
#define MANAGERD_METRICS_H

#include <stdint.h>

/* A call of the engine (MSG_D_…) was answered after so long. */
void metrics_engine_call(uint32_t type, int64_t us, int failed);
/* A connection of a sandbox was let out, or not: enum dial_verdict. */
void metrics_dial(uint32_t verdict);
/* Sends all to apid, as the answer to its message with this id. */
void metrics_send(uint64_t id);

#endif
