/* Writes lines: time, seq and prev, what becomes of those that find no room, when they are durable,
 * when a new file begins. */
#ifndef MANAGERD_AUDIT_LOG_H
#define MANAGERD_AUDIT_LOG_H

#include <jansson.h>
#include <stdint.h>

#include "managerd/audit.h"

/* Opens the files, and compares them with what keyd has signed. A torn last line becomes a
 * "recovered" line. Fatal. */
void audit_log_open(const struct audit_rules *, struct event_base *);
/* Takes the entry; out of memory is fatal. Returns its seq, or 0: it was lost, and is counted. */
uint64_t audit_log_put(json_t *entry);
/* Makes all lines so far durable: 0, or -1. */
int audit_log_sync(void);
/* Once a second: durability, space, the line about those that were lost. */
void audit_log_tick(void);

#endif
