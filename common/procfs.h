/* What /proc says of a process. -1: it has ended, or may not be looked at by who asks. */
#ifndef COMMON_PROCFS_H
#define COMMON_PROCFS_H

#include <stdint.h>
#include <sys/types.h>

/* Resident bytes. */
int64_t procfs_memory(pid_t);
/* How many are open. Of another process that is not dumpable, only CAP_SYS_PTRACE may see it. */
int64_t procfs_descriptors(pid_t);

#endif
