/* What /proc says about the processes of the sandbox. */
#ifndef SANDBOX_INIT_PROCS_H
#define SANDBOX_INIT_PROCS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct proc {
	pid_t pid, ppid;
	char state; /* R S D T t Z X … */
	char mark;  /* for the caller */
};

/* All processes at about this moment; free(3) *list. -1 with errno when /proc cannot be read. */
int procs_list(struct proc **list, size_t *n);
/* Marks the descendants of root, not root itself. */
void procs_mark_descendants(struct proc *, size_t n, pid_t root);
/* 1 when no thread of pid runs: all are stopped, traced to a stop, or dead. */
int procs_stands_still(pid_t pid);
/* How often its threads were given a processor. */
uint64_t procs_runs(pid_t pid);
/* The state in the text of a stat file and the parent; -1 when it is not one. Pure. */
int procs_parse_stat(const char *text, char *state, pid_t *ppid);

#endif
