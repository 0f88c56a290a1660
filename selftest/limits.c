/* Whose processes are here, what may be done to PID 1, and which limits the sandbox has. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "selftest/probe.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define INIT "/.agent-sandbox/init"
#define PROCESSES_MAX 16 /* in a fresh sandbox */
#define TOO_MUCH (INT64_C(1) << 50)

void
check_processes(void)
{
	char text[4096] = "";
	DIR *d = opendir("/proc");
	struct dirent *e;
	int n = 0;

	while (d != NULL && (e = readdir(d)) != NULL)
		n += isdigit((unsigned char)e->d_name[0]) != 0;
	if (n > PROCESSES_MAX)
		broken("%d processes", n);
	read_text("/proc/1/cmdline", text, sizeof(text));
	if (strcmp(text, INIT) != 0)
		broken("PID 1 is %.80s", text);
	holds("%d processes, PID 1 is %s", n, text);
}

void
check_pid1_files(void)
{
	static const struct {
		const char *name;
		int flags;
	} files[] = {{"mem", O_RDONLY}, {"mem", O_RDWR}, {"environ", O_RDONLY}, {"maps", O_RDONLY},
	    {"smaps", O_RDONLY}, {"pagemap", O_RDONLY}, {"auxv", O_RDONLY}, {"stack", O_RDONLY},
	    {"syscall", O_RDONLY}, {"io", O_RDONLY}, {"fd/0", O_RDWR}, {"fd/1", O_WRONLY},
	    {"root/etc/passwd", O_RDONLY}, {"cwd/.", O_RDONLY}, {"exe", O_RDONLY},
	    {"oom_score_adj", O_WRONLY}, {"oom_adj", O_WRONLY}, {"clear_refs", O_WRONLY},
	    {"timerslack_ns", O_WRONLY}, {"autogroup", O_WRONLY}, {"coredump_filter", O_WRONLY},
	    {"comm", O_WRONLY}, {"setgroups", O_WRONLY}, {"uid_map", O_WRONLY},
	    {"task/1/comm", O_WRONLY}, {"attr/current", O_WRONLY}};
	char path[64], byte;
	int fd;

	for (size_t i = 0; i < COUNT(files); i++) {
		snprintf(path, sizeof(path), "/proc/1/%s", files[i].name);
		if ((fd = open(path, files[i].flags | O_NONBLOCK | O_CLOEXEC)) == -1)
			continue;
		/* Some can be opened, but not written. */
		if (files[i].flags == O_RDWR ||
		    (files[i].flags == O_WRONLY && write(fd, "0", 1) == 1) ||
		    (files[i].flags == O_RDONLY && read(fd, &byte, 1) == 1))
			broken("%s is open", path);
		close(fd);
	}
	holds("%zu files of /proc/1: shut", COUNT(files));
}

void
check_pid1_signals(void)
{
	char text[1024] = "", *at;
	int fd;

	for (int s = 1; s <= 64; s++)
		kill(1, s);
	syscall(SYS_tgkill, 1, 1, SIGKILL);
	if ((fd = (int)syscall(SYS_pidfd_open, 1, 0)) != -1)
		syscall(SYS_pidfd_send_signal, fd, SIGSTOP, NULL, 0);
	usleep(50000);
	read_text("/proc/1/stat", text, sizeof(text));
	at = strrchr(text, ')');
	if (at == NULL || strchr("SRD", at[2]) == NULL)
		broken("PID 1 is in state %s", at != NULL ? at + 2 : "?");
	else
		holds("all 64 sent; PID 1 is in state %c", at[2]);
}

void
check_pid1_limits(void)
{
	struct rlimit r = {0, 0};
	struct sched_param param = {0};
	uint64_t mask = 1;
	uint32_t attr[12] = {48, 5};

	for (int i = 0; i < 16; i++)
		refused("prlimit", syscall(SYS_prlimit64, 1, i, &r, NULL));
	refused("sched_setscheduler", syscall(SYS_sched_setscheduler, 1, 5, &param));
	refused("sched_setparam", syscall(SYS_sched_setparam, 1, &param));
	refused("sched_setaffinity", syscall(SYS_sched_setaffinity, 1, sizeof(mask), &mask));
	refused("sched_setattr", syscall(SYS_sched_setattr, 1, attr, 0));
	refused("setpriority", syscall(SYS_setpriority, 0, 1, 19));
	refused("setpriority of the user", syscall(SYS_setpriority, 2, getuid(), 19));
	refused("ioprio_set", syscall(SYS_ioprio_set, 1, 1, 3 << 13));
	holds("prlimit, scheduling, affinity, priority: refused");
}

/* A number of one of the cgroup's files, of version 2 or 1: -1: "max" or none; -2: no such file. */
static int64_t
limit(const char *v2, const char *v1, const char **which)
{
	const char *const names[] = {v2, v1};
	char text[64], path[128];

	for (size_t i = 0; i < COUNT(names); i++) {
		snprintf(path, sizeof(path), "/sys/fs/cgroup/%s", names[i]);
		if (names[i] == NULL || read_text(path, text, sizeof(text)) <= 0)
			continue;
		*which = names[i];
		if (!isdigit((unsigned char)text[0]))
			return -1;
		return strtoll(text, NULL, 10) < TOO_MUCH ? strtoll(text, NULL, 10) : -1;
	}
	*which = v1;
	return -2;
}

static void
must_be_limited(const char *v2, const char *v1)
{
	const char *which = NULL;
	int64_t n = limit(v2, v1, &which);

	if (n == -2)
		broken("%s cannot be read", which);
	else if (n == -1)
		broken("%s: no limit", which);
	else
		holds("%s: %lld", which, (long long)n);
}

void
check_memory_limit(void)
{
	const char *which;
	int64_t swap;

	must_be_limited("memory.max", "memory/memory.limit_in_bytes");
	swap = limit("memory.swap.max", NULL, &which);
	if (swap == -1 || swap > 0)
		broken("swap is not shut: %lld", (long long)swap);
}

void
check_pids_limit(void)
{
	must_be_limited("pids.max", "pids/pids.max");
}

void
check_processor_limit(void)
{
	must_be_limited("cpu.max", "cpu/cpu.cfs_quota_us");
}

void
check_own_limits(void)
{
	struct rlimit core, files;

	getrlimit(RLIMIT_CORE, &core);
	getrlimit(RLIMIT_NOFILE, &files);
	if (core.rlim_max != 0)
		broken("core files of %lld bytes", (long long)core.rlim_max);
	if (files.rlim_max > 65536)
		broken("%lld open files", (long long)files.rlim_max);
	holds("no core files, %lld open files", (long long)files.rlim_max);
}
