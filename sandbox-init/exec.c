/*
 * EXEC inside PID 1: the pipes, the supervisor, the clock and the end of each command. A command
 * that outlives its attachment or its channel is kept here until its supervisor has reported.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/guest.h"
#include "sandbox-init/args.h"
#include "sandbox-init/cgroup.h"
#include "sandbox-init/channel.h"
#include "sandbox-init/exec.h"
#include "sandbox-init/launch.h"
#include "sandbox-init/mem.h"
#include "sandbox-init/pipes.h"
#include "sandbox-init/supervisor.h"

#define KILL_REPEAT_US 200000    /* one that a process inside sent before may have swallowed it */
#define KILL_PATIENCE_US 1600000 /* a supervisor that does not answer was tampered with */
#define CLEAR_PATIENCE_US 2000000

struct exec {
	LIST_ENTRY(exec) next;
	struct channel *ch; /* NULL: nobody wants to know any more */
	pid_t supervisor, command;
	struct watch report;
	struct feed in;
	struct source out, err;
	struct timer clock, killer;
	int64_t started, kill_since;
	int64_t time_left; /* of its clock, while that stands still */
	int64_t ooms;
	struct report end;
	char *must_exist; /* the name of the program, if it is an error that there is none */
	uint8_t timed_out;
	uint8_t ended;
	uint8_t closing; /* CLOSE: output is not wanted any more */
	uint8_t doomed;  /* kill(-1) was sent while it ran: its supervisor's death says nothing */
};

static LIST_HEAD(, exec) execs = LIST_HEAD_INITIALIZER(execs);
static int clearing; /* everything is being killed for an EXEC with kill_others */
static int cleared;
static struct timer clear_timer;

static void on_kill_timer(void *);

void
exec_args(struct channel *ch, const uint8_t *data, size_t len)
{
	if (len > GUEST_ARGS_MAX - ch->args_len) {
		channel_end(ch, 413, 0, "the command and its environment are too long");
		return;
	}
	ch->args = mem_resize(ch->args, ch->args_len + len + 1);
	memcpy(ch->args + ch->args_len, data, len);
	ch->args_len += (uint32_t)len;
}

void
exec_kill_all(void)
{
	struct exec *e;

	LIST_FOREACH (e, &execs, next)
		e->doomed = 1;
	kill(-1, SIGKILL);
}

int
exec_is_supervisor(pid_t pid)
{
	struct exec *e;

	LIST_FOREACH (e, &execs, next)
		if (e->supervisor == pid && !e->ended)
			return 1;
	return 0;
}

static void
clear_done(void *arg)
{
	(void)arg;
	if (!clearing)
		return;
	timer_clear(&clear_timer);
	clearing = 0;
	cleared = 1;
	channel_release();
	cleared = 0;
}

int
exec_must_wait(int kill_others)
{
	int64_t patience = CLEAR_PATIENCE_US;
	siginfo_t si;

	if (clearing)
		return 1;
	if (!kill_others)
		return 0;
	if (cleared) {
		cleared = 0;
		return 0;
	}
	exec_kill_all();
	clearing = 1;
	/* By the timer also when nothing is left: the one that asks is only now being put aside. */
	if (waitid(P_ALL, 0, &si, WEXITED | WNOHANG | WNOWAIT) < 0)
		patience = 0;
	timer_set(&clear_timer, loop_now() + patience, clear_done, NULL);
	return 1;
}

void
exec_reaped(pid_t pid)
{
	struct exec *e;

	LIST_FOREACH (e, &execs, next)
		if (e->supervisor == pid)
			e->supervisor = 0;
}

void
exec_alone(void)
{
	clear_done(NULL);
}

static void
report_close(struct exec *e)
{
	if (e->report.fd < 0)
		return;
	loop_unwatch(&e->report);
	close(e->report.fd);
	e->report.fd = -1;
}

static void
exec_free(struct exec *e)
{
	LIST_REMOVE(e, next);
	timer_clear(&e->clock);
	timer_clear(&e->killer);
	report_close(e);
	feed_close(&e->in);
	source_close(&e->out);
	source_close(&e->err);
	free(e->must_exist);
	free(e);
}

static void
send_exit(struct exec *e)
{
	int status = e->end.value;
	struct g_exit x = {.timed_out = e->timed_out, .cpu_us = e->end.cpu_us};

	if (e->timed_out || WIFSIGNALED(status)) {
		x.signal = e->timed_out ? SIGKILL : (uint8_t)WTERMSIG(status);
		x.exit_code = 128 + x.signal;
	} else {
		x.exit_code = WEXITSTATUS(status);
	}
	x.oom_killed = cgroup_oom_kills() > e->ooms;
	x.duration_us = loop_now() - e->started;
	x.peak_memory_bytes = e->end.peak_kib > 0 ? e->end.peak_kib * 1024 : -1;
	channel_exit(e->ch, &x);
}

/* The end is said when all output that was there before it has been sent. */
static void
exec_try_finish(void *arg)
{
	struct exec *e = arg;

	if (!e->ended)
		return;
	if (e->ch != NULL && !e->closing) {
		if ((e->out.fd >= 0 && e->out.left != 0) || (e->err.fd >= 0 && e->err.left != 0))
			return;
		source_leave(&e->out);
		source_leave(&e->err);
	}
	if (e->ch != NULL)
		send_exit(e);
	exec_free(e);
}

/* Output may be there before the word that the command runs, but must not overtake it. */
static void
exec_started(struct exec *e)
{
	if (!e->out.held)
		return;
	e->out.held = e->err.held = 0;
	if (e->ch == NULL)
		return;
	channel_started(e->ch);
	source_credit(&e->out);
	source_credit(&e->err);
}

static void
exec_ended(struct exec *e)
{
	e->ended = 1;
	exec_started(e);
	report_close(e);
	timer_clear(&e->clock);
	timer_clear(&e->killer);
	feed_close(&e->in);
	source_drain(&e->out);
	source_drain(&e->err);
	exec_try_finish(e);
}

/* User code can kill a supervisor; then nobody knows what it watched over. */
static void
supervisor_died(struct exec *e)
{
	if (!e->doomed)
		exec_kill_all();
	e->end.value = SIGKILL;
	exec_ended(e);
}

static void
exec_failed(struct exec *e, int error)
{
	struct channel *ch = e->ch;

	exec_free(e);
	if (ch == NULL)
		return;
	if (error == EAGAIN)
		channel_end(ch, 429, 0, "sandbox reached its pids_limit");
	else if (error == EMFILE || error == ENFILE)
		channel_end(ch, 429, 0, "sandbox reached its limit of open files");
	else
		channel_end(ch, 429, 0, "sandbox has no memory left for a command");
}

static void
exec_missing(struct exec *e, int error)
{
	struct channel *ch = e->ch;
	char *name = e->must_exist;

	e->must_exist = NULL;
	exec_free(e);
	if (ch != NULL && (error == ENOENT || error == ENOTDIR))
		channel_end(ch, 400, 0, "no such program: %.1000s", name);
	else if (ch != NULL)
		channel_end(ch, 400, 0, "%.1000s cannot be run: %s", name, strerror(error));
	free(name);
}

static void
on_report(void *arg, short revents)
{
	struct exec *e = arg;
	struct report r;
	ssize_t n;

	(void)revents;
	n = read(e->report.fd, &r, sizeof(r));
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n != (ssize_t)sizeof(r)) {
		supervisor_died(e);
		return;
	}
	switch (r.kind) {
	case REPORT_STARTED:
		e->command = r.value;
		exec_started(e);
		break;
	case REPORT_FAILED:
		exec_failed(e, r.value);
		break;
	case REPORT_MISSING:
		exec_missing(e, r.value);
		break;
	default:
		e->end = r;
		exec_ended(e);
		break;
	}
}

static void
exec_kill(struct exec *e)
{
	if (e->ended)
		return;
	timer_clear(&e->clock);
	e->time_left = 0;
	if (e->kill_since == 0)
		e->kill_since = loop_now();
	if (e->supervisor > 0) {
		kill(e->supervisor, SIGCONT);
		kill(e->supervisor, SUPERVISOR_KILL);
	}
	timer_set(&e->killer, loop_now() + KILL_REPEAT_US, on_kill_timer, e);
}

static void
on_kill_timer(void *arg)
{
	struct exec *e = arg;
	int64_t waited = loop_now() - e->kill_since;

	if (waited > 2 * KILL_PATIENCE_US) {
		e->end.value = SIGKILL;
		exec_ended(e);
		return;
	}
	if (waited > KILL_PATIENCE_US)
		exec_kill_all();
	exec_kill(e);
}

static void
on_timeout(void *arg)
{
	struct exec *e = arg;

	e->timed_out = 1;
	exec_kill(e);
}

static void
on_data(struct channel *ch, const uint8_t *data, size_t len)
{
	struct exec *e = ch->state;

	feed_push(&e->in, data, len);
}

static void
on_data_end(struct channel *ch, int64_t bytes)
{
	struct exec *e = ch->state;

	(void)bytes;
	feed_end(&e->in);
}

static void
on_signal(struct channel *ch, uint32_t signo)
{
	struct exec *e = ch->state;

	if (e->command <= 0 || e->ended || signo < 1 || signo > (uint32_t)SIGRTMAX)
		return;
	/* Before its setsid() the process is not yet a group. */
	if (kill(-e->command, (int)signo) < 0 && errno == ESRCH)
		kill(e->command, (int)signo);
}

static void
on_kill(struct channel *ch)
{
	exec_kill(ch->state);
}

static void
on_close(struct channel *ch)
{
	struct exec *e = ch->state;

	e->closing = 1;
	exec_kill(e);
	exec_try_finish(e);
}

static void
on_drop(struct channel *ch)
{
	struct exec *e = ch->state;

	e->ch = NULL;
	feed_close(&e->in);
	source_close(&e->out);
	source_close(&e->err);
	exec_kill(e);
	exec_try_finish(e);
}

static void
on_credit(struct channel *ch)
{
	struct exec *e = ch->state;

	source_credit(&e->out);
	source_credit(&e->err);
}

static const struct channel_ops exec_ops = {.data = on_data,
    .data_end = on_data_end,
    .signal = on_signal,
    .kill = on_kill,
    .close = on_close,
    .drop = on_drop,
    .credit = on_credit};

static void
exec_start(struct channel *ch, const struct g_exec *req, const struct args *a)
{
	struct launched l;
	struct exec *e;

	if (launch_workdir(ch, a->workdir) < 0)
		return;
	e = mem_new(sizeof(*e));
	e->ch = ch;
	e->report.fd = e->in.fd = e->out.fd = e->err.fd = -1;
	LIST_INSERT_HEAD(&execs, e, next);
	e->ooms = cgroup_oom_kills();
	e->started = loop_now();
	if (req->must_exist) {
		e->must_exist = mem_new(strlen(a->argv[0]) + 1);
		strcpy(e->must_exist, a->argv[0]);
	}
	if (launch(a, req->stdin_open, req->must_exist, &l) < 0) {
		exec_failed(e, errno);
		return;
	}
	e->supervisor = l.supervisor;
	ch->ops = &exec_ops;
	ch->state = e;
	feed_open(&e->in, ch, l.in);
	source_open(&e->out, ch, l.out, G_STDOUT, exec_try_finish, e);
	source_open(&e->err, ch, l.err, G_STDERR, exec_try_finish, e);
	e->out.held = e->err.held = 1;
	e->out.watch.events = e->err.watch.events = 0;
	loop_watch(&e->report, l.report, on_report, e);
	e->report.events = POLLIN;
	timer_set(&e->clock, e->started + req->timeout_us, on_timeout, e);
}

void
exec_open(struct channel *ch, const uint8_t *data, size_t len)
{
	struct g_exec req = {0};
	struct args a;
	uint8_t *block = ch->args;
	uint32_t block_len = ch->args_len;

	ch->args = NULL;
	ch->args_len = 0;
	memcpy(&req, data, len < sizeof(req) ? 0 : sizeof(req));
	if (block == NULL || req.timeout_us <= 0 || req.timeout_us > INT64_MAX / 4 ||
	    req.args_len != block_len || args_parse(block, block_len, &a) < 0) {
		channel_end(ch, 400, 0, "the command arrived incomplete");
	} else {
		exec_start(ch, &req, &a);
		(void)!chdir("/");
		free(a.argv);
	}
	free(block);
}

void
exec_clocks_stop(void)
{
	struct exec *e;

	LIST_FOREACH (e, &execs, next) {
		if (e->clock.at == 0)
			continue;
		e->time_left = e->clock.at - loop_now();
		if (e->time_left == 0) /* means: no clock */
			e->time_left = 1;
		timer_clear(&e->clock);
	}
}

void
exec_clocks_go(void)
{
	struct exec *e;

	LIST_FOREACH (e, &execs, next) {
		if (e->time_left != 0)
			timer_set(&e->clock, loop_now() + e->time_left, on_timeout, e);
		e->time_left = 0;
	}
}
