/* Environments, labels and egress allowlists as clients give them: their types and sizes. Pure. */
#ifndef APID_ENV_H
#define APID_ENV_H

#include "apid/json_in.h"
#include "proto/apid_managerd.h"

/*
 * Checks an object of strings as an environment: names not empty, without '='; no NUL; ENV_MAX
 * names, ENV_BYTES_MAX bytes of "NAME=value" and a NUL each, counted in *bytes. 0, or -1 and why.
 * env may be NULL.
 */
int env_check(json_t *env, size_t *bytes, struct refusal *);
/* As labels: LABELS_MAX of them, names of 1 to LABEL_NAME_MAX bytes, values up to LABEL_VALUE_MAX;
 * no NUL. */
int labels_check(json_t *labels, struct refusal *);
/* An egress allowlist: an array of at most EGRESS_ENTRIES_MAX strings, in all EGRESS_TEXT_MAX
 * bytes; what they mean is for managerd to say. 0, or -1 and why. May be NULL. */
int egress_check(json_t *list, struct refusal *);
/* Whether a JSON string holds a NUL. */
int string_has_nul(const json_t *);

#endif
