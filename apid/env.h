/* Environments and labels as clients give them: checked, and written as strings. Pure. */
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
/* Whether a JSON string holds a NUL. */
int string_has_nul(const json_t *);

#endif
