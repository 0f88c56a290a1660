/*
 * PID 1 of a sandbox: speaks the guest protocol on descriptors 0 and 1 and reaps what has no
 * parent. It runs as the user of the sandbox, without capabilities, and needs nothing of the image.
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/guest.h"
#include "sandbox-init/cgroup.h"
#include "sandbox-init/channel.h"
#include "sandbox-init/dial.h"
#include "sandbox-init/exec.h"
#include "sandbox-init/freeze.h"
#include "sandbox-init/launch.h"
#include "sandbox-init/listen.h"
#include "sandbox-init/loop.h"
#include "sandbox-init/stream.h"
#include "sandbox-init/sweep.h"
#include "sandbox-init/workspace.h"

#define TICK_US 1000000

static struct watch signals;
static struct timer tick;
static int attached;

static int64_t
bounded(uint64_t n)
{
	return n > INT64_MAX ? INT64_MAX : (int64_t)n;
}

static void
on_tick(void *arg)
{
	struct g_stat s = {0};
	struct statvfs v;

	(void)arg;
	stream_tick();
	/* Not into a queue that nobody empties. */
	if (attached && stream_room() && statvfs("/workspace", &v) == 0) {
		/* Some file systems count no inodes and say so with the largest number. */
		s.free_bytes = bounded(v.f_bavail * v.f_frsize);
		s.free_inodes = bounded(v.f_favail);
		stream_send(G_STAT, 0, &s, sizeof(s), NULL, 0);
	}
	timer_set(&tick, loop_now() + TICK_US, on_tick, NULL);
}

/* A new attachment: nothing of the one before may reach it. */
static void
hello(const struct frame *f)
{
	struct g_hello h;

	if (f->len < sizeof(h))
		return;
	memcpy(&h, f->data, sizeof(h));
	freeze_abort();
	channel_reset();
	listen_stop();
	dial_reset();
	stream_drop();
	h.version = GUEST_VERSION;
	h.pad = 0;
	stream_send(G_HELLO_ACK, 0, &h, sizeof(h), NULL, 0);
	attached = 1;
	on_tick(NULL);
}

static void
on_frame(const struct frame *f)
{
	if (f->channel == 0) {
		if (f->type == G_HELLO)
			hello(f);
		else if (f->type == G_KILL_ALL && attached)
			exec_kill_all();
		else if (f->type == G_EGRESS && attached)
			listen_start((const char *)f->data, f->len);
	} else if (attached && f->channel > GUEST_CHANNELS) {
		dial_frame(f);
	} else if (attached) {
		channel_frame(f);
	}
}

static void
reap(void)
{
	pid_t pid;

	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
		exec_reaped(pid);
	if (pid < 0)
		exec_alone();
}

/* SIGTERM counts when it comes from outside of the sandbox, where its sender has no number here. */
static void
on_signals(void *arg, short revents)
{
	struct signalfd_siginfo si[8];
	ssize_t n = read(signals.fd, si, sizeof(si));
	size_t i;

	(void)arg;
	(void)revents;
	for (i = 0; n > 0 && i < (size_t)n / sizeof(si[0]); i++)
		if (si[i].ssi_signo == SIGTERM && si[i].ssi_pid == 0 && si[i].ssi_code == SI_USER)
			_exit(0);
	reap();
}

/* Descriptors 0 to 2 are taken, so that no pipe gets their numbers. */
static void
hold_stdio(void)
{
	int fd;

	do {
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	} while (fd >= 0 && fd <= 2);
	if (fd > 2)
		close(fd);
}

/* All signals stay blocked and have their default actions, so that commands need not reset any but
 * the mask. */
static void
take_signals(void)
{
	/* The kernel's own struct sigaction, all default; libc's call refuses the two signals that
	 * it keeps for its threads, and whoever started us may have left those ignored. */
	static const uint64_t by_default[4];
	sigset_t all, wanted;
	int i;

	for (i = 1; i <= SIGRTMAX; i++)
		syscall(SYS_rt_sigaction, i, by_default, NULL, sizeof(uint64_t));
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	sigemptyset(&wanted);
	sigaddset(&wanted, SIGCHLD);
	sigaddset(&wanted, SIGTERM);
	loop_watch(&signals, signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK), on_signals, NULL);
	signals.events = POLLIN;
}

/* "--sweep": nothing but to empty /workspace, which the engine could not remove. */
int
main(int argc, char **argv)
{
	static const struct loop_hooks hooks = {channel_pump, stream_flush, stream_room};

	if (argc == 2 && strcmp(argv[1], "--sweep") == 0) {
		sweep(AT_FDCWD, "/workspace");
		return 0;
	}
	prctl(PR_SET_DUMPABLE, 0);
	/* Fixed, since a freed big buffer would otherwise raise it and the next one stay in the
	 * heap. */
	mallopt(M_MMAP_THRESHOLD, 65536);
	mallopt(M_TRIM_THRESHOLD, 65536);
	hold_stdio();
	take_signals();
	if (workspace_is_foreign("/workspace"))
		_exit(GUEST_EXIT_WORKSPACE);
	(void)!chdir("/");
	cgroup_init();
	launch_init();
	stream_init(on_frame);
	timer_set(&tick, loop_now() + TICK_US, on_tick, NULL);
	loop_run(&hooks);
}
