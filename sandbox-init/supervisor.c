/*
 * One supervisor per command: subreaper, not dumpable, with no descriptor but the report pipe. It
 * ends when the command does (background jobs then belong to PID 1), or, asked to kill, when no
 * descendant is left that could still act.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox-init/command.h"
#include "sandbox-init/loop.h"
#include "sandbox-init/procs.h"
#include "sandbox-init/supervisor.h"

#define REPORT_FD 3
#define ESCALATE_US 400000 /* still new processes after that: a fork bomb, kill all there is */
#define GIVE_UP_US \
	1000000 /* all were killed; one that takes so long to die does nothing any more */

struct killing {
	int64_t began;
	pid_t *known; /* killed before */
	size_t nknown, cap;
	int quiet; /* rounds without a new one */
};

static int
is_known(struct killing *k, pid_t pid)
{
	size_t i;
	pid_t *p;

	for (i = 0; i < k->nknown; i++)
		if (k->known[i] == pid)
			return 1;
	if (k->nknown == k->cap) {
		p = realloc(k->known, (k->cap * 2 + 64) * sizeof(*p));
		if (p == NULL)
			return 0;
		k->known = p;
		k->cap = k->cap * 2 + 64;
	}
	k->known[k->nknown++] = pid;
	return 0;
}

/* SIGKILL to every living descendant; returns how many of them are new. */
static int
kill_round(struct killing *k)
{
	struct proc *list;
	size_t i, n;
	int fresh = 0;

	if (procs_list(&list, &n) < 0)
		return 1; /* it will end in kill(-1) */
	procs_mark_descendants(list, n, getpid());
	for (i = 0; i < n; i++) {
		if (!list[i].mark || list[i].state == 'Z' || list[i].state == 'X')
			continue;
		kill(list[i].pid, SIGKILL);
		fresh += !is_known(k, list[i].pid);
	}
	free(list);
	return fresh;
}

static void
send_report(int32_t kind, int32_t value)
{
	struct report r = {.kind = kind, .value = value};
	struct rusage u;

	if (kind == REPORT_ENDED && getrusage(RUSAGE_CHILDREN, &u) == 0) {
		r.cpu_us = ((int64_t)u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 +
			   u.ru_utime.tv_usec + u.ru_stime.tv_usec;
		r.peak_kib = u.ru_maxrss;
	}
	(void)!write(REPORT_FD, &r, sizeof(r));
}

/* Reaps what there is. Sets *status when the command was among it. Returns 0 when no child is left.
 */
static int
reap(pid_t command, int *status)
{
	pid_t pid;
	int st;

	while ((pid = waitpid(-1, &st, WNOHANG)) > 0)
		if (pid == command)
			*status = st;
	return pid == 0;
}

static int
kill_all_descendants(pid_t command, int status)
{
	struct timespec nap = {.tv_nsec = 2000000};
	struct killing k = {.began = loop_now()};
	sigset_t chld;
	int64_t took;

	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	for (;;) {
		k.quiet = kill_round(&k) > 0 ? 0 : k.quiet + 1;
		if (!reap(command, &status))
			break;
		took = loop_now() - k.began;
		if (took > ESCALATE_US && k.quiet == 0)
			kill(-1, SIGKILL);
		if (took > GIVE_UP_US)
			break;
		/* Dead or dying, all of them: the rest may take its time under PID 1. */
		if (status != -1 && k.quiet >= 5 && took > ESCALATE_US / 2)
			break;
		sigtimedwait(&chld, NULL, &nap);
	}
	free(k.known);
	return status == -1 ? SIGKILL : status; /* as a wait status: ended by it */
}

static void
wait_for(pid_t command, const volatile int *missing)
{
	sigset_t wanted;
	siginfo_t si;
	pid_t init = getppid();
	int status = -1;

	sigemptyset(&wanted);
	sigaddset(&wanted, SIGCHLD);
	sigaddset(&wanted, SUPERVISOR_KILL);
	for (;;) {
		if (sigwaitinfo(&wanted, &si) < 0)
			continue;
		if (si.si_signo == SUPERVISOR_KILL && si.si_code == SI_USER && si.si_pid == init) {
			status = kill_all_descendants(command, status);
			break;
		}
		reap(command, &status);
		if (status != -1)
			break;
	}
	if (missing != NULL && *missing != 0)
		send_report(REPORT_MISSING, *missing);
	else
		send_report(REPORT_ENDED, status);
}

/* Where the command says that it could not be executed: no descriptor, which others inside could
 * hold open. */
static int *
shared_word(void)
{
	void *p =
	    mmap(NULL, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

void
supervisor_run(const struct spawn *s)
{
	int *missing = NULL;
	pid_t pid;

	dup2(s->in, 0);
	dup2(s->out, 1);
	dup2(s->err, 2);
	if (s->report != REPORT_FD)
		dup3(s->report, REPORT_FD, O_CLOEXEC);
	close_range(REPORT_FD + 1, INT_MAX, 0); /* gVisor refuses more */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (s->must_exist && (missing = shared_word()) == NULL) {
		send_report(REPORT_FAILED, ENOMEM);
		_exit(1);
	}
	pid = fork();
	if (pid == 0) {
		umask(s->umask);
		if (s->files.rlim_max > 0)
			setrlimit(RLIMIT_NOFILE, &s->files);
		command_run(s->args, missing);
	}
	if (pid < 0) {
		send_report(REPORT_FAILED, errno);
		_exit(1);
	}
	close_range(0, 2, 0); /* a pipe held here would never come to its end */
	send_report(REPORT_STARTED, pid);
	(void)!chdir("/");
	wait_for(pid, missing);
	_exit(0);
}
