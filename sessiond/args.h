/* What a command is given: checks the ARGS record of a client and makes the guest's argument block
 * of it. Pure. */
#ifndef SESSIOND_ARGS_H
#define SESSIOND_ARGS_H

#include <stddef.h>
#include <stdint.h>

#include "sessiond/buf.h"

/* Whether env[0..len) is a run of "NAME=value\0", or empty. */
int args_env_valid(const char *env, size_t len);

/*
 * record[0..len) is the data of RECORD_ARGS (proto/data.h). Appends the block of proto/guest.h to
 * out: the record's argv; its env, then those variables of the sandbox that it does not set, then
 * HOME, PATH and, with egress, where the proxies are, if nobody sets them; its working directory.
 * Returns NULL, or what is wrong (out is then undefined).
 */
const char *args_build(const uint8_t *record, size_t len, const char *env, size_t env_len,
    int egress, struct buf *out);

#endif
