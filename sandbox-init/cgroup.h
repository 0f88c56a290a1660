/* What the kernel says about memory that ran out. */
#ifndef SANDBOX_INIT_CGROUP_H
#define SANDBOX_INIT_CGROUP_H

#include <stddef.h>
#include <stdint.h>

/* Opens the file of our own cgroup, version 1 or 2, if it can be seen. */
void cgroup_init(void);
/* Processes that the kernel killed for lack of memory since the sandbox began; 0 when unknown. */
int64_t cgroup_oom_kills(void);
/* The value of the line "oom_kill N", 0 when there is none. Pure. */
int64_t cgroup_parse(const char *text);

#endif
