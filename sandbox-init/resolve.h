/* From a path to a descriptor without leaving a root, with openat2(2) or, where that is missing,
 * step by step. */
#ifndef SANDBOX_INIT_RESOLVE_H
#define SANDBOX_INIT_RESOLVE_H

#define RESOLVE_WORKSPACE \
	1 /* stay under /workspace, with all links on the way; else errno is EXDEV */
#define RESOLVE_PARENTS 2 /* make missing folders (0755) */

/* O_PATH descriptor of what an absolute path leads to, links followed; no magic links. -1 with
 * errno. */
int resolve(const char *path, int flags);
/*
 * O_PATH descriptor of the folder that holds (or will hold) path; *name points at the last
 * component within path. ENOTEMPTY: path is the root itself. -1 with errno.
 */
int resolve_parent(const char *path, int flags, const char **name);
/* Opens what an O_PATH descriptor stands for, for use. -1 with errno. */
int resolve_reopen(int fd, int oflags);

#endif
