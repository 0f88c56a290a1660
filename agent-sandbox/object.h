/* Objects of the API: made from what was typed, and printed. */
#ifndef AGENT_SANDBOX_OBJECT_H
#define AGENT_SANDBOX_OBJECT_H

#include <jansson.h>

#include "agent-sandbox/options.h"

/* From the command line; what cannot be is said as wrong use, and the program ends. */
json_t *object_text(const struct usage *, const char *text); /* must be UTF-8 */
json_t *object_pairs(const struct usage *, const struct texts *);
json_t *object_env(const struct usage *, const struct texts *); /* "NAME" takes this process's */
json_t *object_seconds(const struct usage *, double seconds);   /* whole ones, rounded up */
/* "egress_allowlist" of a body, if --egress or --no-egress was given. */
void object_egress(const struct usage *, json_t *body, const struct texts *list, int none);

/* Prints the id, or all with --json; frees the answer. Returns the exit status. */
int object_print_id(json_t *answer);
/* All members, one a line; or as JSON with --json. */
void object_print(const json_t *answer);
/* With --json the answer, if quiet the ids: 1. Else nothing: 0, a table is wanted. */
int object_print_list(const json_t *answer, const json_t *list, int quiet);

/* How long a sandbox still has; buf holds 64 bytes. Returns buf. */
char *object_left(const json_t *sandbox, char buf[64]);
/* What a sandbox reaches: "none", "network", "list of 2"; buf holds 64 bytes. Returns buf. */
char *object_way_out(const json_t *sandbox, char buf[64]);
/* "a=b c=d", until the next call. */
const char *object_labels(const json_t *sandbox);

#endif
