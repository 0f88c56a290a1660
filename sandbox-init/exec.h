/* EXEC: commands, each under a supervisor of its own. */
#ifndef SANDBOX_INIT_EXEC_H
#define SANDBOX_INIT_EXEC_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct channel;

void exec_args(struct channel *, const uint8_t *data, size_t len);
void exec_open(struct channel *, const uint8_t *data, size_t len);
/*
 * Whether an EXEC must wait: with kill_others, everything else is killed first, and the command
 * starts when it is gone; while that goes on no other command starts either.
 */
int exec_must_wait(int kill_others);
/* Children of PID 1: one was reaped; none is left. */
void exec_reaped(pid_t pid);
void exec_alone(void);

/* SIGKILL to everything but PID 1. */
void exec_kill_all(void);
/* Whether pid is one of our supervisors. */
int exec_is_supervisor(pid_t pid);
/* While the sandbox is frozen the time of commands does not run. */
void exec_clocks_stop(void);
void exec_clocks_go(void);

#endif
