/*
 * Runs are short, and what the engine does for us in the background would take the processors from
 * them: that waits for a moment without any, within bounds that are its own.
 */
#ifndef MANAGERD_QUIET_H
#define MANAGERD_QUIET_H

/* Whether no run and no client has waited for anything for a moment. Who is told no asks again
 * soon: that is how it knows. */
int quiet(void);
/* A run has ended. */
void quiet_broken(void);

#endif
