/* Requests that were refused before anything was begun: one key has no more than AUDIT_REFUSALS
 * lines a second of them, the others are summed up. */
#ifndef MANAGERD_AUDIT_FOLD_H
#define MANAGERD_AUDIT_FOLD_H

#include <stdint.h>

struct request;

/* 1: it is counted, and has no line; 0: it has one. */
int audit_fold(const struct request *, uint32_t status);
/* Writes the sums, and begins a new second. */
void audit_fold_tell(void);

#endif
