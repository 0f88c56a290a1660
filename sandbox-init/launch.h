/* Starts a command under its supervisor. */
#ifndef SANDBOX_INIT_LAUNCH_H
#define SANDBOX_INIT_LAUNCH_H

#include <sys/types.h>

struct args;
struct channel;

/* Our ends, not blocking. in is -1 when the command's standard input is empty. */
struct launched {
	pid_t supervisor;
	int in, out, err, report;
};

/* Once, at start: remembers what commands inherit. */
void launch_init(void);
/* Enters the folder that the next command inherits. 0, or -1 when the channel was ended with the
 * reason. */
int launch_workdir(struct channel *, const char *dir);
/* 0, or -1 with errno (EAGAIN: no process left). must_exist: as struct spawn. */
int launch(const struct args *, int with_stdin, int must_exist, struct launched *);

#endif
