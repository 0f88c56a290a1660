/*
 * Files as a server keeps them in its data directory, for a reader who may be root: who owns
 * managerd can put there what it likes under its names. Only regular files are opened, and nothing
 * is waited for.
 */
#ifndef AGENT_SANDBOX_DATA_FILE_H
#define AGENT_SANDBOX_DATA_FILE_H

#include <sys/types.h>

/* flags: O_NOFOLLOW where nobody but the server has named it. -1 with errno; ELOOP: it is not a
 * regular file. */
int data_file_open(int folder, const char *name, int flags);
/* Its first bytes, at most size. -1 with errno, likewise. */
ssize_t data_file_read(int folder, const char *name, int flags, void *buf, size_t size);
/* errno in words. */
const char *data_file_error(void);

#endif
