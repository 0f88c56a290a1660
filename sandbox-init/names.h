/* Names in a tar that somebody else made. Pure functions. */
#ifndef SANDBOX_INIT_NAMES_H
#define SANDBOX_INIT_NAMES_H

#include <stddef.h>

/*
 * Brings the name of an entry to the form "a/b/c" ("" is the root) in out[size]. Returns NULL, or
 * the reason why it is refused: absolute, "..", too long.
 */
const char *names_clean(const char *name, char *out, size_t size);
/*
 * Whether a symbolic link called name (cleaned), unpacked into a folder that lies depth folders
 * below /workspace, has a target outside of /workspace. depth -1: the folder lies elsewhere, and
 * its root is the limit.
 */
int names_leads_out(int depth, const char *name, const char *target);

#endif
