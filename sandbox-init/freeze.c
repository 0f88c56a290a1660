/*
 * SIGSTOP to everything but PID 1 and the supervisors (which touch no file), round by round until
 * two rounds in a row find every thread stopped: one is not enough, since a process seen stopped
 * may have forked one that was not seen.
 */
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-init/channel.h"
#include "sandbox-init/exec.h"
#include "sandbox-init/freeze.h"
#include "sandbox-init/loop.h"
#include "sandbox-init/mem.h"
#include "sandbox-init/procs.h"

#define PATIENCE_US 2000000
#define ROUND_US 2000
/*
 * The parent of a vfork cannot stop before its child has called exec, which cannot when it was
 * stopped first: let all go on for a moment and try again.
 */
#define RETRY_ROUNDS 100

static int active;
static int rounds, still_rounds;
static int64_t began;
static pid_t *stopped; /* by us; what stood still before stays so */
static size_t nstopped, stopped_cap;
static struct still {
	pid_t pid;
	uint64_t runs;
} * stills; /* all that stood still, in the order of their numbers */
static size_t nstills;
static struct timer timer;
static void (*done_fn)(void *, int);
static void *done_arg;

static int
stopped_by_us(pid_t pid)
{
	size_t i;

	for (i = 0; i < nstopped; i++)
		if (stopped[i] == pid)
			return 1;
	return 0;
}

static void
stop(pid_t pid)
{
	if (nstopped == stopped_cap) {
		stopped_cap = stopped_cap ? stopped_cap * 2 : 64;
		stopped = mem_resize(stopped, stopped_cap * sizeof(*stopped));
	}
	if (kill(pid, SIGSTOP) == 0)
		stopped[nstopped++] = pid;
}

static void
continue_all(void)
{
	size_t i;

	for (i = 0; i < nstopped; i++)
		kill(stopped[i], SIGCONT);
	nstopped = 0;
}

static int
is_dead(const struct proc *p)
{
	return p->state == 'Z' || p->state == 'X';
}

/* 1 when everything stood still already. */
static int
stop_round(void)
{
	struct proc *list;
	size_t i, n;
	int still = 1;

	if (procs_list(&list, &n) < 0)
		return 0;
	for (i = 0; i < n; i++) {
		if (list[i].pid == getpid() || is_dead(&list[i]) || exec_is_supervisor(list[i].pid))
			continue;
		if ((list[i].state == 'T' || list[i].state == 't') &&
		    procs_stands_still(list[i].pid))
			continue;
		still = 0;
		if (!stopped_by_us(list[i].pid))
			stop(list[i].pid);
	}
	free(list);
	return still;
}

static int
by_pid(const void *a, const void *b)
{
	const struct still *p = a, *q = b;

	return p->pid < q->pid ? -1 : p->pid > q->pid;
}

static void
remember(void)
{
	struct proc *list;
	size_t i, n;

	nstills = 0;
	if (procs_list(&list, &n) < 0)
		return;
	stills = mem_resize(stills, (n + 1) * sizeof(*stills));
	for (i = 0; i < n; i++) {
		if (list[i].pid == getpid() || is_dead(&list[i]) || exec_is_supervisor(list[i].pid))
			continue;
		stills[nstills].pid = list[i].pid;
		stills[nstills++].runs = procs_runs(list[i].pid);
	}
	free(list);
	if (nstills > 1)
		qsort(stills, nstills, sizeof(*stills), by_pid);
}

/* What is new since then is one of our workers, or the child of one that has run. */
int
freeze_held(void)
{
	struct still key = {0}, *found;
	struct proc *list;
	size_t i, n;
	int held = 1;

	if (nstills == 0)
		return 1;
	if (procs_list(&list, &n) < 0)
		return 0;
	for (i = 0; i < n && held; i++) {
		key.pid = list[i].pid;
		found = bsearch(&key, stills, nstills, sizeof(*stills), by_pid);
		if (found != NULL && !is_dead(&list[i]))
			held = procs_runs(list[i].pid) == found->runs;
	}
	free(list);
	return held;
}

static void
on_round(void *arg)
{
	/* freeze_end() lets in what waited, which may begin the next freeze. */
	void (*done)(void *, int) = done_fn, *for_whom = done_arg;

	(void)arg;
	still_rounds = stop_round() ? still_rounds + 1 : 0;
	if (still_rounds >= 2) {
		remember();
		done(for_whom, 1);
		return;
	}
	if (loop_now() - began > PATIENCE_US) {
		freeze_end();
		done(for_whom, 0);
		return;
	}
	if (++rounds % RETRY_ROUNDS == 0)
		continue_all();
	timer_set(&timer, loop_now() + (still_rounds > 0 ? 0 : ROUND_US), on_round, NULL);
}

void
freeze_begin(void (*done)(void *, int), void *arg)
{
	active = 1;
	rounds = still_rounds = 0;
	began = loop_now();
	done_fn = done;
	done_arg = arg;
	exec_clocks_stop();
	timer_set(&timer, began, on_round, NULL);
}

void
freeze_abort(void)
{
	if (!active)
		return;
	active = 0;
	timer_clear(&timer);
	continue_all();
	free(stopped);
	stopped = NULL;
	stopped_cap = 0;
	free(stills);
	stills = NULL;
	nstills = 0;
	exec_clocks_go();
}

void
freeze_end(void)
{
	if (!active)
		return;
	freeze_abort();
	channel_release();
}

int
freeze_active(void)
{
	return active;
}
