/* The verbs of the command. */
#ifndef AGENT_SANDBOX_VERB_H
#define AGENT_SANDBOX_VERB_H

#include "agent-sandbox/options.h"

/* argv is what stands behind the verb. Returns the exit status. */
typedef int verb_run(int argc, char **argv);

/* Verbs with their usage and options; the rows of the table in main.c. */
extern const struct usage usage_create, usage_ls, usage_show, usage_timeout, usage_rm;
extern const struct usage usage_snapshot, usage_snapshots, usage_rollback, usage_fork;
extern const struct usage usage_run, usage_exec, usage_cat, usage_put, usage_files;
extern const struct usage usage_openapi, usage_selftest, usage_keygen, usage_keys, usage_audit;
verb_run verb_create, verb_ls, verb_show, verb_timeout, verb_rm;
verb_run verb_snapshot, verb_snapshots, verb_rollback, verb_fork;
verb_run verb_openapi, verb_selftest, verb_keygen, verb_keys, verb_audit;
verb_run verb_run_code, verb_exec, verb_cat, verb_put, verb_files;

#endif
