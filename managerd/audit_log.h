/* Writes lines: time, seq and prev, what becomes of those that find no room, when they are durable,
 * when a new file begins. */
#ifndef MANAGERD_AUDIT_LOG_H
#define MANAGERD_AUDIT_LOG_H

#include <jansson.h>
#include <stdint.h>

#include "managerd/audit.h"

/* Opens the files. A torn last line becomes a "recovered" line. Fatal. */
void audit_log_open(const struct audit_rules *);
/* Takes the entry; out of memory is fatal. Returns its seq, or 0: it was lost, and is counted. */
uint64_t audit_log_put(json_t *entry);
/* Makes all lines so far durable: 0, or -1. */
int audit_log_sync(void);
/* Once a second: durability, space, the line about those that were lost. */
void audit_log_tick(void);
/* Lines that a server before this one has lost without a word. */
void audit_log_lost_before(uint64_t n);

#endif
