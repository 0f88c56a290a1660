/* Has keyd sign how far the audit log has come: at the start, now and then, when a file is closed,
 * at the end. */
#ifndef MANAGERD_AUDIT_SIGN_H
#define MANAGERD_AUDIT_SIGN_H

#include <stdint.h>

#include "managerd/audit.h"

/*
 * Asks keyd what it has signed last, and waits for it. A log that ends before that line, or has
 * another one there, was tampered with, or is half of a backup: EXIT_CONFIG. Returns how many lines
 * were lost without a word. Without a keyd (rules->keyd_fd 0) nothing is signed.
 */
uint64_t audit_sign_open(const struct audit_rules *, struct event_base *);
/* What is done at the end when keyd has gone. */
void audit_sign_on_gone(void (*)(void));
/* Once a second. Never waits. */
void audit_sign_tick(void);
/* At the next tick, though it was not long ago. */
void audit_sign_soon(void);
/* Asks, and waits for so long at most. */
void audit_sign_now(int64_t us);
/* So many lines are lost by now: keyd remembers it. */
void audit_sign_lost(uint64_t n);
/* Whether keyd has signed this line, or one behind it; nobody signs: yes. */
int audit_sign_has(uint64_t seq);
uint64_t audit_sign_count(void);

#endif
