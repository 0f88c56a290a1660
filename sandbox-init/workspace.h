/* The look at /workspace before anything is served. */
#ifndef SANDBOX_INIT_WORKSPACE_H
#define SANDBOX_INIT_WORKSPACE_H

/* 1 when something in the folder (or the folder itself) belongs to another user than ours. Follows
 * no link. */
int workspace_is_foreign(const char *path);

#endif
