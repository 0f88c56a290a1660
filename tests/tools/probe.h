/*
 * What a probe build of a program does instead of running: one attempt, from inside its
 * confinement. The attempt is named by the first argument; how it went is the last line on standard
 * error.
 */
#ifndef TESTS_TOOLS_PROBE_H
#define TESTS_TOOLS_PROBE_H

/* Does not return. */
void probe_run(void);

#endif
