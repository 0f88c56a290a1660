/* What the files of "agent-sandbox doctor" offer each other. */
#ifndef AGENT_SANDBOX_DOCTOR_H
#define AGENT_SANDBOX_DOCTOR_H

#include <stdio.h>
#include <sys/types.h>

#include "config/settings.h"

/* FAIL: something would not work. WEAK: it works, with less protection than it could have. */
enum finding { FINDING_OK, FINDING_NOTE, FINDING_WEAK, FINDING_FAIL };

/* One line on standard output. */
void doctor_say(enum finding, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Returns an exit status: 0, or 1 when something would not work. */
int doctor_run(const char *file);
/* doctor_engine.c */
void doctor_engine(const struct settings *);
/* doctor_pool.c */
void doctor_pool(const struct settings *);
/* doctor_tls.c */
void doctor_tls(const struct settings *);
/* doctor_keys.c */
void doctor_keys(const struct settings *);
/* A file as the server would open it, which must have no bit of never; NULL: it is said why not. */
FILE *doctor_open(const char *setting, const char *path, mode_t never);
/* The answers to GET /version and /info as the engine gave them; apart from the transport, for
 * tests. */
void doctor_judge_version(const char *json);
void doctor_judge_info(const struct settings *, const char *json);

/* facts.c: known weaknesses of a version of "engine" or "runc"; each is told with doctor_say().
 * Returns how many. */
int facts_tell(const char *component, const char *version);
/* Whether version is older than the fix in its line of releases, or than all fixes. fixed:
 * "1.2.8 1.3.3". */
int facts_affected(const char *version, const char *fixed);

#endif
