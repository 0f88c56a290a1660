/*
 * Starts sandbox-init as a container would: PID 1 of its own pid, mount, ipc and net namespaces, an
 * unprivileged user without capabilities, a read-only root with /workspace, /tmp and /proc. Run as
 * root: guest_launch [-w WORKSPACE] [-u UID] [-p PROCESSES] [-x FILE_SIZE] [-t TMP_SIZE] [-n] [-T]
 * [-c CGROUP] [-H HOSTS] [-L] INIT -n: openat2(2) answers ENOSYS. -T: O_TMPFILE answers EOPNOTSUPP.
 * -c: a memory cgroup directory (version 1) to live in. -W SIZE: /workspace is a tmpfs of that size
 * instead. -H: this file is /etc/hosts. -L: low ports are for privileged users. Standard input and
 * output become those of INIT.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <net/if.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *workspace, *workspace_size, *tmp_size = "16m", *cgroup, *hosts;
static uid_t uid = 1000;
static rlim_t processes, file_size;
static int no_openat2, no_tmpfile, low_ports_closed;

static void
must(int r, const char *what)
{
	if (r < 0)
		err(111, "guest_launch: %s", what);
}

static void
put(const char *from, const char *to, unsigned long flags)
{
	must(mount(from, to, NULL, MS_BIND | MS_REC, NULL), from);
	if (flags)
		must(mount(NULL, to, NULL, MS_BIND | MS_REMOUNT | flags, NULL), to);
}

/* The host's own folders, read-only; where they are links (usr-merge), the same links. */
static void
borrow(const char *dir)
{
	char to[64], target[256];
	struct stat st;
	ssize_t n;

	if (lstat(dir, &st) < 0)
		return;
	snprintf(to, sizeof(to), "/mnt%s", dir);
	if (S_ISLNK(st.st_mode)) {
		n = readlink(dir, target, sizeof(target) - 1);
		must((int)n, dir);
		target[n] = '\0';
		must(symlink(target, to), to);
		return;
	}
	must(mkdir(to, 0755), to);
	put(dir, to, MS_RDONLY);
}

static void
make_root(const char *init)
{
	static const char *const dirs[] = {
	    "/usr", "/bin", "/lib", "/lib64", "/sbin", "/etc", "/dev", "/sys"};
	char opts[128];
	size_t i;

	must(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "private");
	must(mount("root", "/mnt", "tmpfs", 0, "mode=755"), "root");
	for (i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++)
		borrow(dirs[i]);
	if (hosts != NULL)
		put(hosts, "/mnt/etc/hosts", MS_RDONLY);
	must(mkdir("/mnt/workspace", 0755), "workspace");
	must(mkdir("/mnt/tmp", 0755), "tmp");
	must(mkdir("/mnt/proc", 0755), "proc");
	must(mkdir("/mnt/.agent-sandbox", 0755), "init folder");
	if (workspace_size != NULL) {
		snprintf(opts, sizeof(opts), "mode=755,uid=%d,gid=%d,size=%s", (int)uid, (int)uid,
		    workspace_size);
		must(mount("workspace", "/mnt/workspace", "tmpfs", MS_NOSUID | MS_NODEV, opts),
		    "workspace");
	} else if (workspace != NULL) {
		put(workspace, "/mnt/workspace", 0);
	}
	snprintf(opts, sizeof(opts), "mode=1777,size=%s", tmp_size);
	must(mount("tmp", "/mnt/tmp", "tmpfs", MS_NOSUID | MS_NODEV, opts), "tmp");
	must(mount("proc", "/mnt/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL), "proc");
	if (cgroup != NULL)
		must(mount(cgroup, "/mnt/sys/fs/cgroup/memory", NULL, MS_BIND, NULL), cgroup);
	close(open("/mnt/.agent-sandbox/init", O_CREAT | O_WRONLY, 0555));
	put(init, "/mnt/.agent-sandbox/init", MS_RDONLY);
	must(mount(NULL, "/mnt", NULL, MS_REMOUNT | MS_RDONLY, "mode=755"), "read-only root");
	must(chdir("/mnt"), "root");
	must(mount(".", "/", NULL, MS_MOVE, NULL), "move");
	must(chroot("."), "chroot");
	must(chdir("/workspace"), "workspace");
}

static void
filter(void)
{
	struct sock_filter code[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, no_openat2 ? SYS_openat2 : -1U, 0, 1),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, no_tmpfile ? SYS_openat : -1U, 0, 4),
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
	    BPF_STMT(BPF_ALU | BPF_AND | BPF_K, O_TMPFILE),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, O_TMPFILE, 0, 1),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {sizeof(code) / sizeof(code[0]), code};

	if (no_openat2 || no_tmpfile)
		must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog), "seccomp");
}

static void
limit(int what, rlim_t n)
{
	struct rlimit r = {n, n};

	if (n > 0)
		must(setrlimit(what, &r), "rlimit");
}

/* As engines have it: loopback is up, and low ports are for everybody. */
static void
network(void)
{
	struct ifreq r = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	must(fd, "socket");
	must(ioctl(fd, SIOCSIFFLAGS, &r), "lo");
	close(fd);
	fd = open("/proc/sys/net/ipv4/ip_unprivileged_port_start", O_WRONLY);
	if (fd >= 0 && !low_ports_closed)
		must((int)write(fd, "0", 1), "low ports");
	close(fd);
}

static void
become_pid1(const char *init)
{
	char path[] = "/.agent-sandbox/init", *argv[] = {path, NULL}, *envp[] = {NULL};
	int cap, fd;

	make_root(init);
	network();
	must(sethostname("sandbox", 7), "hostname");
	for (cap = 0; cap < 64; cap++)
		prctl(PR_CAPBSET_DROP, cap);
	must(setgroups(0, NULL), "setgroups");
	must(setresgid(uid, uid, uid), "gid");
	limit(RLIMIT_NPROC, processes);
	limit(RLIMIT_FSIZE, file_size);
	must(setresuid(uid, uid, uid), "uid");
	must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
	must(prctl(PR_SET_PDEATHSIG, SIGKILL), "pdeathsig");
	fd = open("/proc/self/oom_score_adj", O_WRONLY);
	if (fd >= 0)
		(void)!write(fd, "500", 3);
	filter();
	close_range(3, ~0U, 0);
	execve(path, argv, envp);
	err(111, "guest_launch: exec %s", init);
}

static void
join(void)
{
	char path[512];
	int fd;

	snprintf(path, sizeof(path), "%s/cgroup.procs", cgroup);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	must(fd, path);
	must((int)write(fd, "0", 1), path);
	close(fd);
}

int
main(int argc, char **argv)
{
	int c, status;
	pid_t pid;

	while ((c = getopt(argc, argv, "w:W:u:p:x:t:c:H:nTL")) != -1) {
		switch (c) {
		case 'w':
			workspace = optarg;
			break;
		case 'W':
			workspace_size = optarg;
			break;
		case 'u':
			uid = (uid_t)atoi(optarg);
			break;
		case 'p':
			processes = (rlim_t)atoi(optarg);
			break;
		case 'x':
			file_size = (rlim_t)atoll(optarg);
			break;
		case 't':
			tmp_size = optarg;
			break;
		case 'c':
			cgroup = optarg;
			break;
		case 'H':
			hosts = optarg;
			break;
		case 'L':
			low_ports_closed = 1;
			break;
		case 'n':
			no_openat2 = 1;
			break;
		case 'T':
			no_tmpfile = 1;
			break;
		default:
			return 111;
		}
	}
	if (optind + 1 != argc)
		errx(111, "usage: guest_launch [options] INIT");
	must(prctl(PR_SET_PDEATHSIG, SIGKILL), "pdeathsig");
	if (cgroup != NULL)
		join();
	must(unshare(CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWUTS),
	    "unshare");
	pid = fork();
	must(pid, "fork");
	if (pid == 0)
		become_pid1(argv[optind]);
	close(0);
	close(1);
	while (waitpid(pid, &status, 0) < 0)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
