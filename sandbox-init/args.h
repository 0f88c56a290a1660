/* The argument block of EXEC, and where a command's program may be. Pure functions. */
#ifndef SANDBOX_INIT_ARGS_H
#define SANDBOX_INIT_ARGS_H

#include <stddef.h>
#include <stdint.h>

struct args {
	char **argv; /* NULL-terminated, into the block; free(argv) frees both lists */
	char **envp;
	const char *workdir;
	const char *path; /* PATH of envp, or GUEST_PATH */
};

/* The block of proto/guest.h. 0, or -1 when it is not exactly one. The block must outlive args. */
int args_parse(uint8_t *block, size_t len, struct args *);

/*
 * The next file to try for a program name without a slash: writes "directory/name" of the directory
 * at *path into out and moves *path behind it. An empty directory is ".". 0: no directory is left.
 * -1: this one is too long, go on.
 */
int args_candidate(const char **path, const char *name, char *out, size_t size);

#endif
