/*
 * Doors of the kernel. Arguments are chosen so that a call which gets past the system call filter
 * says something else than EPERM where that can be (a bad pointer: EFAULT), so that the filter is
 * seen and not only the lack of a right behind it.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <linux/capability.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "selftest/probe.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define BAD ((void *)8)
#define CALL(name, ...) filtered(#name, syscall(SYS_##name, __VA_ARGS__))

ssize_t
read_text(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	size_t n = 0;
	ssize_t got = 0;

	if (fd == -1)
		return -1;
	while (n < size - 1 && (got = read(fd, buf + n, size - 1 - n)) > 0)
		n += (size_t)got;
	buf[n] = '\0';
	close(fd);
	return n == 0 && got == -1 ? -1 : (ssize_t)n;
}

/* A line of /proc/PID/status, without its name. */
static void
status_of(const char *pid, const char *name, char out[64])
{
	char path[64], text[8192], *at;

	out[0] = '\0';
	snprintf(path, sizeof(path), "/proc/%s/status", pid);
	if (read_text(path, text, sizeof(text)) <= 0)
		return;
	for (at = text; (at = strstr(at, name)) != NULL; at++)
		if ((at == text || at[-1] == '\n') && at[strlen(name)] == ':') {
			sscanf(at + strlen(name) + 1, " %63[^\n]", out);
			return;
		}
}

static void
status_is(const char *name, const char *want)
{
	static const char *const pids[] = {"self", "1"};
	char got[64];

	for (size_t i = 0; i < COUNT(pids); i++) {
		status_of(pids[i], name, got);
		if (strcmp(got, want) != 0)
			broken("%s of %s: \"%s\"", name, i == 0 ? "this process" : "PID 1", got);
	}
}

void
check_capabilities(void)
{
	static const char *const sets[] = {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"};

	for (size_t i = 0; i < COUNT(sets); i++)
		status_is(sets[i], "0000000000000000");
	holds("CapInh, CapPrm, CapEff, CapBnd, CapAmb: 0000000000000000");
}

void
check_no_new_privileges(void)
{
	status_is("NoNewPrivs", "1");
	holds("NoNewPrivs: 1");
}

void
check_seccomp(void)
{
	status_is("Seccomp", "2");
	holds("Seccomp: 2");
}

void
check_users(void)
{
	char groups[64];

	refused("setuid(0)", setuid(0));
	refused("setgid(0)", setgid(0));
	refused("seteuid(0)", seteuid(0));
	refused("setresuid(0)", syscall(SYS_setresuid, 0, 0, 0));
	refused("setgroups(0)", syscall(SYS_setgroups, 0, NULL));
	status_of("self", "Groups", groups);
	if (getuid() == 0 || getgid() == 0 || geteuid() != getuid())
		broken("this is user %u, group %u", getuid(), getgid());
	for (const char *p = groups; *p != '\0'; p += strspn(p, " "))
		if (strtoul(p, (char **)&p, 10) != getgid())
			broken("further groups: %s", groups);
	holds("user %u, group %u, no others", getuid(), getgid());
}

/* Starts a set-user-id program that waits for input, and looks which user it is. */
static int
user_of_program(const char *path)
{
	char pid[16], name[64], uids[64];
	unsigned real, effective = 0;
	int in[2];
	pid_t child;

	if (pipe(in) == -1 || (child = fork()) == -1)
		return -1;
	if (child == 0) {
		dup2(in[0], 0);
		close(in[1]);
		fclose(stdout);
		fclose(stderr);
		execl(path, path, (char *)NULL);
		_exit(127);
	}
	close(in[0]);
	snprintf(pid, sizeof(pid), "%d", child);
	for (int i = 0; i < 200; i++) {
		usleep(5000);
		status_of(pid, "Name", name);
		if (strcmp(name, strrchr(path, '/') + 1) != 0)
			continue;
		status_of(pid, "Uid", uids);
		if (sscanf(uids, "%u %u", &real, &effective) == 2)
			break;
	}
	kill(child, SIGKILL);
	close(in[1]);
	waitpid(child, NULL, 0);
	return (int)effective;
}

void
check_set_user_id(void)
{
	static const char *const programs[] = {"/usr/bin/passwd", "/bin/su", "/usr/bin/su",
	    "/usr/bin/newgrp", "/bin/bbsuid", "/usr/bin/chsh"};
	struct stat st;
	int n = 0, user;

	for (size_t i = 0; i < COUNT(programs); i++) {
		if (stat(programs[i], &st) == -1 || (st.st_mode & S_ISUID) == 0)
			continue;
		n++;
		if ((user = user_of_program(programs[i])) == 0)
			broken("%s runs as root", programs[i]);
	}
	holds("%d programs tried: they run as user %u", n, getuid());
}

static void
try_clone(const char *what, unsigned long flag)
{
	long pid = syscall(SYS_clone, flag | SIGCHLD, 0, 0, 0, 0);

	if (pid == 0)
		_exit(0);
	filtered(what, pid);
	if (pid > 0)
		waitpid((pid_t)pid, NULL, 0);
}

void
check_user_namespaces(void)
{
	static const struct {
		const char *name;
		unsigned long flag;
	} kinds[] = {{"user", CLONE_NEWUSER}, {"mount", CLONE_NEWNS}, {"net", CLONE_NEWNET},
	    {"pid", CLONE_NEWPID}, {"ipc", CLONE_NEWIPC}, {"uts", CLONE_NEWUTS},
	    {"cgroup", CLONE_NEWCGROUP}, {"user and net", CLONE_NEWUSER | CLONE_NEWNET}};
	char what[64];

	for (size_t i = 0; i < COUNT(kinds); i++) {
		snprintf(what, sizeof(what), "clone, %s", kinds[i].name);
		try_clone(what, kinds[i].flag);
		snprintf(what, sizeof(what), "unshare, %s", kinds[i].name);
		filtered(what, syscall(SYS_unshare, kinds[i].flag));
	}
	filtered("unshare", syscall(SYS_unshare, 0));
	filtered("clone3", syscall(435, BAD, 88));
	holds("clone, unshare and clone3, %zu kinds: refused", COUNT(kinds));
}

void
check_setns(void)
{
	static const char *const kinds[] = {"user", "mnt", "net", "pid", "ipc", "uts", "cgroup"};
	char path[64];
	int fd;

	filtered("setns", syscall(SYS_setns, -1, 0));
	for (size_t i = 0; i < COUNT(kinds); i++) {
		snprintf(path, sizeof(path), "/proc/1/ns/%s", kinds[i]);
		if ((fd = open(path, O_RDONLY | O_CLOEXEC)) == -1)
			continue;
		broken("%s can be opened", path);
		filtered(path, syscall(SYS_setns, fd, 0));
	}
	if ((fd = (int)syscall(SYS_pidfd_open, 1, 0)) != -1)
		filtered("setns of PID 1", syscall(SYS_setns, fd, CLONE_NEWUSER));
	holds("setns refused, /proc/1/ns shut");
}

void
check_ptrace(void)
{
	char byte;
	struct iovec here = {&byte, 1}, there = {(void *)0x400000, 1};
	int fd;

	refused("ptrace ATTACH", ptrace(PTRACE_ATTACH, 1, NULL, NULL));
	refused("ptrace SEIZE", ptrace(PTRACE_SEIZE, 1, NULL, NULL));
	refused("process_vm_readv", process_vm_readv(1, &here, 1, &there, 1, 0));
	refused("process_vm_writev", process_vm_writev(1, &here, 1, &there, 1, 0));
	if ((fd = (int)syscall(SYS_pidfd_open, 1, 0)) != -1)
		refused("pidfd_getfd", syscall(SYS_pidfd_getfd, fd, 0, 0));
	CALL(kcmp, 1, 1, 0, 0, 0);
	CALL(move_pages, 1, 0, BAD, BAD, BAD, 0);
	CALL(migrate_pages, 1, 0, BAD, BAD);
	holds("PID 1: ptrace, process_vm_readv, pidfd_getfd, kcmp, move_pages refused");
}

void
check_mounts(void)
{
	CALL(mount, BAD, BAD, BAD, 0, BAD);
	refused("mount of a tmpfs", syscall(SYS_mount, "none", "/tmp", "tmpfs", 0, NULL));
	refused("remount of /", syscall(SYS_mount, NULL, "/", NULL, 32 | 4096, NULL));
	refused("bind mount", syscall(SYS_mount, "/", "/tmp", NULL, 4096, NULL));
	refused("move of /proc", syscall(SYS_mount, "/proc", "/tmp", NULL, 8192, NULL));
	filtered("umount", syscall(SYS_umount2, BAD, ~0));
	refused("umount of /workspace", syscall(SYS_umount2, "/workspace", 2));
	refused("umount of /proc/kcore", syscall(SYS_umount2, "/proc/kcore", 2));
	CALL(quotactl, 0, NULL, 0, NULL);
	holds("mount, remount, bind, move, umount: refused");
}

void
check_mounts_new(void)
{
	filtered("open_tree", syscall(428, -1, BAD, 0));
	filtered("open_tree of a copy", syscall(428, AT_FDCWD, "/", 1));
	filtered("move_mount", syscall(429, -1, BAD, -1, BAD, 0));
	filtered("fsopen", syscall(430, BAD, 0));
	filtered("fsconfig", syscall(431, -1, 0, BAD, BAD, 0));
	filtered("fsmount", syscall(432, -1, 0, 0));
	filtered("fspick", syscall(433, -1, BAD, 0));
	filtered("mount_setattr", syscall(442, -1, BAD, 0, BAD, 0));
	filtered("statmount", syscall(457, BAD, BAD, 0, 0));
	filtered("listmount", syscall(458, BAD, BAD, 0, 0));
	holds("fsopen, fsmount, open_tree, move_mount, ...: refused");
}

void
check_chroot(void)
{
	CALL(chroot, BAD);
	refused("chroot", chroot("/tmp"));
	CALL(pivot_root, "/", "/tmp");
	holds("chroot, pivot_root: refused");
}

void
check_keyrings(void)
{
	CALL(keyctl, 0, -3, 0); /* the session's, which everybody may ask for */
	CALL(add_key, "user", "selftest", "x", 1, -3);
	CALL(request_key, "user", "selftest", NULL, 0);
	holds("keyctl, add_key, request_key: refused");
}

void
check_io_uring(void)
{
	filtered("io_uring_setup", syscall(425, 4, BAD));
	filtered("io_uring_enter", syscall(426, -1, 0, 0, 0, NULL, 0));
	filtered("io_uring_register", syscall(427, -1, 0, NULL, 0));
	CALL(io_setup, 1, BAD);
	holds("io_uring_setup, _enter, _register, io_setup: refused");
}

void
check_bpf(void)
{
	CALL(bpf, 0, BAD, 64);
	CALL(bpf, 5, BAD, 64);
	holds("bpf: refused");
}

void
check_perf(void)
{
	CALL(perf_event_open, BAD, 0, -1, -1, 0);
	holds("perf_event_open: refused");
}

void
check_userfaultfd(void)
{
	CALL(userfaultfd, 1 /* UFFD_USER_MODE_ONLY, which everybody may have */);
	holds("userfaultfd: refused");
}

void
check_file_handles(void)
{
	CALL(name_to_handle_at, AT_FDCWD, "/", BAD, BAD, 0);
	CALL(open_by_handle_at, AT_FDCWD, BAD, 0);
	CALL(fanotify_init, 0, 0);
	holds("name_to_handle_at, open_by_handle_at, fanotify_init: refused");
}

void
check_modules(void)
{
	CALL(init_module, BAD, 0, BAD);
	CALL(finit_module, -1, BAD, 0);
	CALL(delete_module, BAD, 0);
	CALL(kexec_load, 0, 0, BAD, 0);
	CALL(kexec_file_load, -1, -1, 0, BAD, 0);
	holds("init_module, finit_module, delete_module, kexec: refused");
}

void
check_reboot(void)
{
	CALL(reboot, 1, 2, 3, NULL);
	CALL(swapon, BAD, 0);
	CALL(swapoff, BAD);
	CALL(acct, BAD);
	CALL(syslog, 10, NULL, 0);
	CALL(vhangup, 0);
	holds("reboot, swapon, acct, syslog, vhangup: refused");
}

void
check_clocks(void)
{
	struct timex ask = {0};

	CALL(settimeofday, BAD, NULL);
	CALL(clock_settime, 0, BAD);
	CALL(adjtimex, &ask); /* only asks, which everybody may */
	CALL(clock_adjtime, 0, &ask);
	holds("settimeofday, clock_settime, adjtimex: refused");
}

void
check_names_of_host(void)
{
	CALL(sethostname, BAD, 1);
	CALL(setdomainname, BAD, 1);
	holds("sethostname, setdomainname: refused");
}

void
check_other_calls(void)
{
#ifdef __x86_64__
	CALL(iopl, 0);
	CALL(ioperm, 0, 0, 0);
	CALL(modify_ldt, 0, BAD, 0);
	CALL(uselib, BAD);
	CALL(ustat, 0, BAD);
	CALL(sysfs, 3);
	CALL(create_module, BAD, 0);
	CALL(_sysctl, BAD);
#endif
	CALL(lookup_dcookie, 0, BAD, 0);
	CALL(mbind, BAD, 0, 0, BAD, 0, 0);
	CALL(get_mempolicy, BAD, NULL, 0, NULL, 0);
	CALL(set_mempolicy, 0, NULL, 0);
	CALL(remap_file_pages, BAD, 0, 0, 0, 0);
	CALL(nfsservctl, 0, BAD, BAD);
	filtered("memfd_secret", syscall(447, 0));
	filtered("lsm_list_modules", syscall(461, BAD, BAD, 0));
	holds("iopl, modify_ldt, NUMA policies, memfd_secret, ...: refused");
}

void
check_call_arguments(void)
{
	static char big[8192];
	int fd = open("/tmp", O_TMPFILE | O_RDWR, 0600);

	filtered("personality, executable data", syscall(SYS_personality, 0x0400000));
	filtered("setxattr of 8 KiB", syscall(SYS_setxattr, BAD, BAD, big, sizeof(big), 0));
	filtered("a lease", fcntl(fd, F_SETLEASE, F_RDLCK));
	filtered("limits of another", syscall(SYS_prlimit64, getppid(), 4, NULL, big));
	filtered("priority of another", syscall(SYS_setpriority, 0, getppid(), 19));
	filtered("priority of a user", syscall(SYS_setpriority, 2, getuid(), 19));
	filtered("I/O priority of another", syscall(SYS_ioprio_set, 1, 1, 3 << 13));
	filtered("socketpair of IPv4", socketpair(2, 1, 0, (int[2]){0}));
	close(fd);
	holds("personality, setxattr, leases, prlimit, setpriority, ioprio_set: refused");
}

/* Calls by the numbers of another architecture, which no rule of the filter names. */
static long
call_as_another(int way)
{
	long r = -1;

#ifdef __x86_64__
	if (way == 0)
		__asm__ volatile("int $0x80" : "=a"(r) : "a"(20) : "memory"); /* getpid */
	else
		r = syscall(0x40000000 | SYS_getpid);
#else
	(void)way;
#endif
	return r;
}

void
check_other_entries(void)
{
	static const char *const ways[] = {"the 32-bit entry", "x32"};
	char how[2][48];
	int status;
	pid_t pid;

	for (int way = 0; way < 2; way++) {
		if ((pid = fork()) == 0)
			_exit(call_as_another(way) > 0 ? 1 : 0);
		waitpid(pid, &status, 0);
		if (WIFEXITED(status) && WEXITSTATUS(status) == 1)
			broken("%s: getpid is done", ways[way]);
		snprintf(how[way], sizeof(how[way]),
		    WIFSIGNALED(status) ? "ended by signal %d" : "refused", WTERMSIG(status));
	}
	holds("the 32-bit entry: %s; x32: %s", how[0], how[1]);
}
