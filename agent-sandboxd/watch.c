/* The loop: channels, signals, deaths, the engine's socket; and how all programs are ended. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "agent-sandboxd/parent.h"
#include "common/log.h"

#define TICK_MS 500
#define LATER_MS 5
/* From the signal on: until then apid may end its streams, managerd remove the pool and what runs
 * had, the others end. */
#define DRAIN_MS 2000
#define POOL_MS 3200
#define TERM_MS 3600
#define CRASH_MS 2000 /* for all, when one has died */
#define KILL_MS 500
#define UNREAD_MAX 16384 /* answers; far below what ends whoever sends them */

struct watch {
	struct pollfd *pfds;
	struct chan **chans;
	size_t n;
	int later; /* something is to be sent soon, whatever the poll says */
};

static volatile sig_atomic_t got_child, got_stop, got_hup, got_usr1;

int64_t
now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void
on_signal(int sig)
{
	if (sig == SIGCHLD)
		got_child = 1;
	else if (sig == SIGHUP)
		got_hup = 1;
	else if (sig == SIGUSR1)
		got_usr1 = 1;
	else
		got_stop = sig;
}

/* They stay blocked but for the poll, so that none is missed; a restarted parent finds those that
 * came meanwhile. */
void
watch_signals(void)
{
	static const int sigs[] = {SIGCHLD, SIGHUP, SIGUSR1, SIGTERM, SIGINT};
	struct sigaction sa = {.sa_handler = on_signal};
	sigset_t set;

	sigfillset(&sa.sa_mask);
	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(sigs) / sizeof(sigs[0]); i++) {
		sigaction(sigs[i], &sa, NULL);
		sigaddset(&set, sigs[i]);
	}
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
}

static void
ready(struct process *proc, const struct m_ready *m)
{
	struct parent *p = proc->parent;
	struct process *managerd = &p->prog[PROG_MANAGERD];
	const struct m_none none = {0};

	proc->ready = 1;
	log_debug("%s[%d] is ready", program_names[proc->kind], proc->pid);
	if (proc == managerd)
		p->instance = INSTANCE_CHECK;
	if ((m->partial || p->partial) && !p->told_partial && managerd->chan != NULL) {
		p->told_partial = 1;
		send_P_PARTIAL(managerd->chan, 0, &none, NULL, 0, -1);
		log_warnx("confinement is partial: %s",
		    p->as_root ? "this kernel lacks a part of it"
			       : "not started by root, so all run as one user");
	}
}

void
watch_message(struct chan *c, struct msg *m)
{
	struct process *proc = chan_arg(c);

	if (chan_queued(c) > UNREAD_MAX)
		watch_breach(c, "it asks, and does not read the answers");
	else if (m->type == MSG_P_KEYED || m->type == MSG_P_TLS_DONE)
		tls_answer(proc, m);
	else if (m->type == MSG_P_PONG)
		proc->ping = PING_ANSWERED;
	else if (m->type == MSG_P_ASK_FIGURES)
		metrics_figures(proc->parent, c);
	else if (m->type != MSG_P_READY)
		sessions_message(c, m);
	else if (proc->ready)
		watch_breach(c, "ready twice");
	else
		ready(proc, m->payload);
}

/* A program without its channel is of no use. Its own end, if it has come to that, is not changed
 * by the kill. */
void
watch_gone(struct chan *c)
{
	struct process *proc = chan_arg(c);

	proc->chan = NULL;
	chan_free(c);
	kill(proc->pid, SIGKILL);
}

void
watch_breach(struct chan *c, const char *why)
{
	struct process *proc = chan_arg(c);

	log_warnx("%s[%d] breaks the rules of its channel: %s", program_names[proc->kind],
	    proc->pid, why);
	watch_gone(c);
}

static void
log_end(const struct process *proc, int status)
{
	const char *name = program_names[proc->kind];

	if (WIFSIGNALED(status))
		log_warnx("%s[%d] was ended by signal %d (%s)%s", name, proc->pid, WTERMSIG(status),
		    strsignal(WTERMSIG(status)),
		    WTERMSIG(status) == SIGSYS ? ": killed by its system call filter" : "");
	else if (WEXITSTATUS(status) == 127)
		log_warnx("%s[%d] could not be executed", name, proc->pid);
	else
		log_warnx("%s[%d] ended with status %d", name, proc->pid, WEXITSTATUS(status));
}

static int
ended_by_us(const struct parent *p, int status)
{
	if (WIFSIGNALED(status))
		return WTERMSIG(status) == SIGTERM || (p->killing && WTERMSIG(status) == SIGKILL);
	return WEXITSTATUS(status) == 0;
}

static void
ended(struct parent *p, struct process *proc, int status)
{
	if (proc->kind == PROG_SESSIOND) {
		if (status != 0 && p->outcome == RUNNING)
			log_end(proc, status);
		sessions_over(p, proc, status);
		return;
	}
	/* Those that merely follow another, or that are ended here, need no word. */
	if (p->outcome == RUNNING || (p->outcome == DIED && !ended_by_us(p, status)))
		log_end(proc, status);
	/* The first one, or else the first that did not merely follow another. */
	if (p->outcome == RUNNING ||
	    (p->outcome == DIED && p->died_status == 0 && !ended_by_us(p, status))) {
		p->died = (int)proc->kind + 1;
		p->died_status = status;
	}
	if (p->outcome == RUNNING)
		p->outcome = DIED;
	/* Once it serves, that shows again at the new start; who was taken over only says so. */
	if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_CONFIG && p->outcome == DIED &&
	    !p->listening)
		p->outcome = MISCONFIGURED;
	proc->pid = 0;
	chan_free(proc->chan);
	proc->chan = NULL;
}

static struct process *
find(struct parent *p, pid_t pid)
{
	struct process *proc;

	for (int i = 0; i < LONG_LIVED; i++)
		if (p->prog[i].pid == pid)
			return &p->prog[i];
	for (proc = p->sessions; proc != NULL && proc->pid != pid;)
		proc = proc->next;
	return proc;
}

static void
reap(struct parent *p)
{
	struct process *proc;
	pid_t pid;
	int status;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		if ((proc = find(p, pid)) != NULL)
			ended(p, proc, status);
}

static void
check_ready(struct parent *p)
{
	int n = 0;

	if (p->listening)
		return;
	for (int i = 0; i < LONG_LIVED; i++) {
		int ms = i == PROG_MANAGERD ? LOAD_MS : READY_MS;

		n += p->prog[i].ready;
		if (!p->prog[i].ready && now_ms() - p->prog[i].started_ms > ms) {
			log_warnx("%s[%d] is not ready after %d s", program_names[i],
			    p->prog[i].pid, ms / 1000);
			p->outcome = DIED;
		}
	}
	if (n == LONG_LIVED && p->tls.asked == NULL)
		listen_open(p);
}

/* A socket that was just made may get its owner a moment later: what is seen twice is what it is.
 */
static void
check_engine(struct parent *p)
{
	struct engine_id now;

	paths_engine(p, &now);
	if (!now.exists || !paths_engine_differs(&now, &p->engine))
		return;
	if (!paths_engine_differs(&now, &p->pending)) {
		log_info("the engine's socket %s is %s", p->set.engine,
		    p->engine.exists ? "another" : "there");
		p->outcome = ENGINE_CHANGED;
	}
	p->pending = now;
}

/* A channel whose packet the system cannot take now, though the socket has room, is tried again
 * soon. */
void
watch_want(struct chan *c, int want)
{
	struct process *proc = chan_arg(c);

	proc->want = want;
}

static void
add_poll(struct watch *w, struct process *proc)
{
	if (proc->chan == NULL)
		return;
	w->chans[w->n] = proc->chan;
	w->pfds[w->n] = (struct pollfd){.fd = chan_fd(proc->chan), .events = POLLIN};
	if (proc->want == CHAN_WANT_WRITE)
		w->pfds[w->n].events |= POLLOUT;
	if (proc->want == CHAN_WANT_LATER)
		w->later = 1;
	w->n++;
}

static void
fill(struct watch *w, struct parent *p)
{
	size_t max = LONG_LIVED + p->nsessions;

	w->n = w->later = 0;
	w->pfds = reallocarray(w->pfds, max, sizeof(*w->pfds));
	w->chans = reallocarray(w->chans, max, sizeof(*w->chans));
	if (w->pfds == NULL || w->chans == NULL)
		fatal("poll");
	for (int i = 0; i < LONG_LIVED; i++)
		add_poll(w, &p->prog[i]);
	for (struct process *s = p->sessions; s != NULL; s = s->next)
		add_poll(w, s);
}

/* One round. A callback frees no channel but its own, so the others stay good for it. */
static void
serve(struct watch *w)
{
	const struct timespec tick = {.tv_nsec = (w->later ? LATER_MS : TICK_MS) * 1000000L};
	sigset_t none;

	sigemptyset(&none);
	if (ppoll(w->pfds, w->n, &tick, &none) == -1) {
		if (errno != EINTR)
			fatal("ppoll");
		return;
	}
	for (size_t i = 0; i < w->n; i++) {
		if (chan_queued(w->chans[i]) > 0)
			chan_writable(w->chans[i]);
		if ((w->pfds[i].revents & ~POLLOUT) != 0)
			chan_readable(w->chans[i]);
	}
}

/* At SIGUSR1. Whoever does not read its channel is passed over. */
static void
tell_state(struct parent *p)
{
	const struct m_none none = {0};

	log_info("state: %zu sessions, %lld restarts", p->nsessions, (long long)p->restarts_total);
	for (int i = 0; i < LONG_LIVED; i++)
		if (p->prog[i].ready && p->prog[i].chan != NULL &&
		    chan_queued(p->prog[i].chan) == 0)
			send_P_STATE(p->prog[i].chan, 0, &none, NULL, 0, -1);
	for (struct process *s = p->sessions; s != NULL; s = s->next)
		if (s->ready && s->chan != NULL && chan_queued(s->chan) == 0)
			send_P_STATE(s->chan, 0, &none, NULL, 0, -1);
}

enum outcome
watch_run(struct parent *p)
{
	struct watch w = {0};
	int64_t next_tick = now_ms() + TICK_MS;

	while (p->outcome == RUNNING) {
		fill(&w, p);
		serve(&w);
		if (got_child) {
			got_child = 0;
			reap(p);
		}
		if (got_hup) {
			got_hup = 0;
			log_info("SIGHUP: files of keys are read again");
			notify_reloading();
			tls_reload(p);
			keys_reload(p);
		}
		if (got_usr1) {
			got_usr1 = 0;
			tell_state(p);
		}
		if (p->outcome == RUNNING)
			check_ready(p);
		if (p->outcome == RUNNING && now_ms() >= next_tick) {
			next_tick = now_ms() + TICK_MS;
			sessions_overdue(p);
			tls_overdue(p);
			check_engine(p);
			resolv_check(p);
			notify_tick(p);
		}
		if (got_stop)
			p->outcome = STOPPED;
	}
	free(w.pfds);
	free(w.chans);
	if (got_stop) {
		log_info("signal %d: ending", (int)got_stop);
		notify("STOPPING=1");
	}
	return p->outcome;
}

static void
signal_all(struct parent *p, int sig)
{
	for (int i = 0; i < LONG_LIVED; i++)
		if (p->prog[i].pid > 0)
			kill(p->prog[i].pid, sig);
	for (struct process *s = p->sessions; s != NULL; s = s->next)
		kill(s->pid, sig);
}

static int
alive(const struct parent *p)
{
	int n = p->sessions != NULL;

	for (int i = 0; i < LONG_LIVED; i++)
		n += p->prog[i].pid > 0;
	return n;
}

/* Until only is gone (NULL: all of them), or it is this time. */
static void
wait_gone(struct parent *p, const struct process *only, int64_t end)
{
	int64_t left;
	sigset_t child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	for (;;) {
		reap(p);
		left = end - now_ms();
		if (left <= 0 || (only != NULL ? only->pid <= 0 : !alive(p)))
			return;
		sigtimedwait(&child, NULL,
		    &(struct timespec){.tv_sec = left / 1000, .tv_nsec = left % 1000 * 1000000});
	}
}

void
watch_end_all(struct parent *p)
{
	struct process *apid = &p->prog[PROG_APID], *managerd = &p->prog[PROG_MANAGERD];
	const struct m_none none = {0};
	int64_t begun = now_ms();

	if (p->outcome == STOPPED && apid->pid > 0) {
		if (managerd->chan != NULL)
			send_P_DRAIN(managerd->chan, 0, &none, NULL, 0, -1);
		kill(apid->pid, SIGTERM);
		wait_gone(p, apid, begun + DRAIN_MS);
		wait_gone(p, managerd, begun + POOL_MS);
	}
	signal_all(p, SIGTERM);
	wait_gone(p, NULL, begun + (p->outcome == STOPPED ? TERM_MS : CRASH_MS));
	p->killing = 1;
	signal_all(p, SIGKILL);
	wait_gone(p, NULL, now_ms() + KILL_MS);
	if (alive(p))
		log_warnx("some programs could not be ended");
}
