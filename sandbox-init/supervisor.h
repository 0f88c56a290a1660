/* The process between PID 1 and a command: it adopts whatever the command leaves behind, so that a
 * kill finds all of it. */
#ifndef SANDBOX_INIT_SUPERVISOR_H
#define SANDBOX_INIT_SUPERVISOR_H

#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

struct args;

struct spawn {
	int in, out, err; /* what the command gets as 0, 1, 2 */
	int report;       /* where struct report goes */
	mode_t umask;
	int must_exist;      /* that there is no such program is reported, not complained of */
	struct rlimit files; /* RLIMIT_NOFILE; zeros: leave it */
	const struct args *args;
};

enum report_kind { REPORT_STARTED, REPORT_FAILED, REPORT_ENDED, REPORT_MISSING };

struct report {
	int32_t kind;
	int32_t value; /* STARTED: the command's pid; FAILED: errno of fork; ENDED: its wait status;
			  MISSING: errno of exec */
	int64_t cpu_us;
	int64_t peak_kib;
};

/*
 * PID 1 sends this signal to the supervisor to have the command and all its descendants killed.
 * Only its own counts: the kernel vouches for si_pid of a plain kill(2).
 */
#define SUPERVISOR_KILL SIGUSR1

/* In the new process: forks the command, waits for it, reports, leaves. All signals are blocked. */
void supervisor_run(const struct spawn *) __attribute__((noreturn));

#endif
