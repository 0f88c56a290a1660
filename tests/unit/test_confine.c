/*
 * Confinement as the kernel enforces it: in forked children that enter it and then try. What a
 * promise does not give kills; what it gives works; the root directory, ids, limits and paths are
 * what was asked for.
 */
#include "tests/unit/forked.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include <linux/seccomp.h>

#include "common/confine_rules.h"
#include "common/log.h"

#define UID 64090
#define GID 64091
#define EXTRA_GID 64092

static char dir[] = "/tmp/test_confine.XXXXXX"; /* holds docker.sock, data/ */
static char socket_path[64], data_path[64];
static int pair[2]; /* of sockets, open everywhere */

static int
group_setup(void **state)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int s = socket(AF_UNIX, SOCK_STREAM, 0);

	(void)state;
	if (mkdtemp(dir) == NULL || chmod(dir, 0755) == -1)
		return -1;
	snprintf(socket_path, sizeof(socket_path), "%s/docker.sock", dir);
	snprintf(data_path, sizeof(data_path), "%s/data", dir);
	memcpy(sun.sun_path, socket_path, sizeof(socket_path));
	if (bind(s, (struct sockaddr *)&sun, sizeof(sun)) == -1 || listen(s, 256) == -1 ||
	    chmod(socket_path, 0666) == -1)
		return -1;
	if (mkdir(data_path, 0700) == -1 || (geteuid() == 0 && chown(data_path, UID, GID) == -1))
		return -1;
	return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair);
}

static int
group_teardown(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}

static struct confine_ids
our_ids(const char *path)
{
	int root = geteuid() == 0;

	return (struct confine_ids){.uid = root ? UID : geteuid(),
	    .gid = root ? GID : getegid(),
	    .extra_gid = (gid_t)-1,
	    .path = path,
	    .as_root = root};
}

/* Attempts: each returns 0, or -1 with errno, if it survives. */
static int
try_read(void)
{
	return read(STDIN_FILENO, NULL, 0) == 0 ? 0 : -1;
}

static int
try_more_memory(void)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? -1 : munmap(p, 4096);
}

static int
try_code(void)
{
	return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
	       MAP_FAILED;
}

static int
try_to_make_code(void)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return mprotect(p, 4096, PROT_READ | PROT_EXEC);
}

static int
try_epoll(void)
{
	return epoll_create1(EPOLL_CLOEXEC) == -1;
}

static int
try_recvmsg(void)
{
	struct msghdr mh = {0};

	return recvmsg(pair[0], &mh, MSG_DONTWAIT) == -1 && errno != EAGAIN ? -1 : 0;
}

static int
try_sendmsg(void)
{
	struct msghdr mh = {0};

	return sendmsg(pair[0], &mh, MSG_DONTWAIT) == 0 ? 0 : -1;
}

static int
try_socketpair(void)
{
	int s[2];

	return socketpair(AF_UNIX, SOCK_STREAM, 0, s);
}

static int
try_inet_socketpair(void)
{
	int s[2];

	return socketpair(AF_INET, SOCK_STREAM, 0, s);
}

static int
try_send(void)
{
	return send(pair[0], "", 0, MSG_DONTWAIT) == 0 ? 0 : -1;
}

static int
try_send_to_an_address(void)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX, .sun_path = "/docker.sock"};

	return sendto(pair[0], "", 0, MSG_DONTWAIT, (struct sockaddr *)&sun, sizeof(sun)) == 0 ? 0
											       : -1;
}

static int
try_accept(void)
{
	return accept4(STDIN_FILENO, NULL, NULL, SOCK_CLOEXEC) == -1 && errno != ENOTSOCK ? -1 : 0;
}

static int
try_connect(void)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX, .sun_path = "/docker.sock"};
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	return s == -1 ? -1 : connect(s, (struct sockaddr *)&sun, sizeof(sun));
}

static int
try_inet_socket(void)
{
	return socket(AF_INET, SOCK_STREAM, 0);
}

static int
try_netlink(void)
{
	return socket(AF_NETLINK, SOCK_RAW, 0);
}

static int
try_bind(void)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};

	return bind(pair[0], (struct sockaddr *)&sun, sizeof(sa_family_t));
}

static int
try_listen(void)
{
	return listen(pair[0], 1);
}

static int
try_open(void)
{
	int fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd == -1 && errno != EACCES ? -1 : 0;
}

static int
try_open_for_writing(void)
{
	int fd = open("/file", O_WRONLY | O_CLOEXEC);

	return fd == -1 && errno != ENOENT && errno != EACCES ? -1 : 0;
}

static int
try_to_create(void)
{
	int fd = open("/file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	return fd == -1 && errno != EROFS && errno != EACCES ? -1 : 0;
}

static int
try_mkdir(void)
{
	return mkdir("/x", 0700) == -1 && errno != EROFS && errno != EACCES ? -1 : 0;
}

static int
try_link(void)
{
	return symlinkat("a", AT_FDCWD, "b");
}

static int
try_exec(void)
{
	return execl("/bin/true", "true", NULL);
}

static int
try_fork(void)
{
	return (int)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

static int
try_kill(void)
{
	return kill(getppid(), 0);
}

static int
try_ptrace(void)
{
	return (int)ptrace(PTRACE_TRACEME, 0, NULL, NULL);
}

static int
try_setuid(void)
{
	return setuid(0);
}

static int
try_unshare(void)
{
	return unshare(CLONE_NEWUSER);
}

static int
try_mount(void)
{
	return mount("none", "/", "tmpfs", 0, NULL);
}

static int
try_chroot(void)
{
	return chroot("/");
}

static int
try_prctl(void)
{
	return prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

static int
try_ioctl(void)
{
	return ioctl(STDIN_FILENO, 0x5412 /* TIOCSTI */, "x");
}

static int
try_io_uring(void)
{
	return (int)syscall(SYS_io_uring_setup, 1, NULL);
}

static int
try_new_call(void)
{
	return syscall(CONFINE_LAST_REVIEWED + 50) == -1 && errno == ENOSYS ? 0 : -1;
}

static int
try_abort_of_another(void)
{
	return (int)syscall(SYS_tgkill, 1, 1, 0);
}

/*
 * by: the promises, one of which it takes; "" kills with all of them. Sockets fail, instead of
 * killing, where inet is promised (confine_groups.c says why).
 */
static const struct {
	const char *name, *by;
	int (*fn)(void);
} tries[] = {
    {"read", "stdio", try_read},
    {"memory", "stdio", try_more_memory},
    {"a call that is newer than the tables", "stdio", try_new_call},
    {"epoll", "event", try_epoll},
    {"recvmsg", "recvfd", try_recvmsg},
    {"sendmsg", "sendfd", try_sendmsg},
    {"socketpair", "socketpair unix", try_socketpair},
    {"send", "stream inet unix", try_send},
    {"accept", "inet", try_accept},
    {"connect", "unix", try_connect},
    {"open", "rpath wpath cpath", try_open},
    {"open for writing", "wpath cpath", try_open_for_writing},
    {"create", "cpath", try_to_create},
    {"mkdir", "cpath", try_mkdir},
    {"executable memory", "", try_code},
    {"memory made executable", "", try_to_make_code},
    {"send to an address", "", try_send_to_an_address},
    {"socketpair of another family", "", try_inet_socketpair},
    {"TCP socket", "", try_inet_socket},
    {"netlink socket", "", try_netlink},
    {"bind", "", try_bind},
    {"listen", "", try_listen},
    {"symlink", "", try_link},
    {"exec", "", try_exec},
    {"fork", "", try_fork},
    {"kill", "", try_kill},
    {"signal to another", "", try_abort_of_another},
    {"ptrace", "", try_ptrace},
    {"setuid", "", try_setuid},
    {"unshare", "", try_unshare},
    {"mount", "", try_mount},
    {"chroot", "", try_chroot},
    {"prctl", "", try_prctl},
    {"ioctl", "", try_ioctl},
    {"io_uring", "", try_io_uring},
};

struct attempt {
	struct confine confine;
	struct confine_ids ids;
	int (*fn)(void);
	int unprivileged; /* as if a user who is not root had started it */
};

static void
attempt(void *arg)
{
	struct attempt *a = arg;
	int r;

	if (a->unprivileged && geteuid() == 0) {
		if (setgroups(0, NULL) == -1 || setresgid(GID, GID, GID) == -1 ||
		    setresuid(UID, UID, UID) == -1)
			fatal("becoming somebody else");
		a->ids.as_root = 0;
	}
	/* Nothing is left out, but that a user who is not root has one id for all programs. */
	r = confine_enter(&a->confine, &a->ids);
	if (!a->ids.allow_weaker && r != !a->ids.as_root)
		fatalx("confine_enter said %d", r);
	if (a->fn != NULL && a->fn() != 0)
		fatal("the attempt failed");
}

/* Is word in the list? */
static int
listed(const char *list, const char *word)
{
	char padded[192], one[128];

	snprintf(padded, sizeof(padded), " %s ", list);
	snprintf(one, sizeof(one), " %s ", word);
	return strstr(padded, one) != NULL;
}

static int
asks_for_a_socket(int (*fn)(void))
{
	return fn == try_connect || fn == try_inet_socket || fn == try_netlink;
}

static void
check_try(size_t i, const char *promise)
{
	char promises[128];
	struct attempt a = {.ids = our_ids(socket_path), .fn = tries[i].fn};
	struct forked f;
	int killed;

	snprintf(promises, sizeof(promises), "stdio %s", promise);
	a.confine = (struct confine){.promises = promises, .root = ROOT_SOCKET, .nofile = 64};
	f = forked_run(attempt, &a);
	killed = WIFSIGNALED(f.status) && WTERMSIG(f.status) == SIGSYS;
	if (listed(tries[i].by, promise) || listed(tries[i].by, "stdio")) {
		if (f.status != 0)
			fail_msg("%s with \"%s\": status 0x%x %s", tries[i].name, promises,
			    (unsigned)f.status, f.log);
	} else if (!killed && !(asks_for_a_socket(tries[i].fn) && listed(promises, "inet") &&
				  f.status == 0x100))
		fail_msg("%s with \"%s\" was not killed: status 0x%x %s", tries[i].name, promises,
		    (unsigned)f.status, f.log);
}

static void
what_a_promise_gives_works_and_all_else_kills(void **state)
{
	const struct confine_group *g;
	size_t i;

	(void)state;
#ifdef CONFINE_SANITIZED
	skip(); /* sanitizers need more than the promises */
#endif
	for (i = 0; i < sizeof(tries) / sizeof(tries[0]); i++)
		for (g = confine_groups; g->name != NULL; g++)
			check_try(i, g->name);
}

static void
all_promises_together_do_not_give_what_none_gives(void **state)
{
	size_t i;

	(void)state;
#ifdef CONFINE_SANITIZED
	skip();
#endif
	for (i = 0; i < sizeof(tries) / sizeof(tries[0]); i++)
		if (tries[i].by[0] == '\0')
			check_try(
			    i, "event recvfd sendfd socketpair stream inet unix rpath wpath cpath");
}

static void
must(int ok, const char *what)
{
	if (!ok)
		fatal("%s", what);
}

static int
sees_an_empty_root(void)
{
	struct stat st;

	must(stat("/", &st) == 0 && (st.st_mode & 07777) == 0755, "root directory");
	must(access("/tmp", F_OK) == -1 && errno == ENOENT, "/tmp");
	must(access("/../etc", F_OK) == -1 && errno == ENOENT, "/../etc");
	must(access("/proc", F_OK) == -1 && errno == ENOENT, "/proc");
	must(access("docker.sock", F_OK) == -1 && errno == ENOENT, "socket");
	must(open("/x", O_CREAT | O_WRONLY, 0600) == -1 && (errno == EROFS || errno == EACCES),
	    "create");
	return 0;
}

static int
sees_only_the_socket(void)
{
	must(access("/docker.sock", F_OK) == 0, "socket");
	must(access("/data", F_OK) == -1 && errno == ENOENT, "its neighbour");
	must(access("/../etc", F_OK) == -1 && errno == ENOENT, "/../etc");
	must(unlink("/docker.sock") == -1, "unlink");
	must(open("/x", O_CREAT | O_WRONLY, 0600) == -1 && (errno == EROFS || errno == EACCES),
	    "create");
	must(try_connect() == 0, "connect");
	return 0;
}

static int
sees_only_its_directory(void)
{
	struct stat st;
	int fd = open("/kept", O_CREAT | O_RDWR | O_TRUNC | O_CLOEXEC, 0600);

	must(fd != -1 && write(fd, "x", 1) == 1, "create");
	must(stat(".", &st) == 0 && stat("/", &st) == 0, "stat");
	must(access("/../etc", F_OK) == -1 && errno == ENOENT, "/../etc");
	must(access("/../docker.sock", F_OK) == -1 && errno == ENOENT, "/../docker.sock");
	must(rename("/kept", "/moved") == 0 && unlink("/moved") == 0, "rename, unlink");
	must(mkdir("/d", 0700) == 0 && rmdir("/d") == 0, "mkdir, rmdir");
	return 0;
}

static const struct confine_path everything[] = {{"/", "rwc"}, {NULL, NULL}};
#define FILES "stdio rpath wpath cpath unix"

static void
enter_and(int (*fn)(void), enum confine_root root, const char *path, const char *promises)
{
	struct attempt a = {.fn = fn,
	    .ids = our_ids(path),
	    .confine = {.promises = promises, .root = root, .nofile = 64, .fsize_max = 1000}};

	a.confine.paths = root == ROOT_DIR ? everything : NULL;
	assert_survives(attempt, &a);
	a.unprivileged = 1;
	assert_survives(attempt, &a);
}

static void
an_empty_root_holds_nothing_and_takes_nothing(void **state)
{
	(void)state;
	enter_and(sees_an_empty_root, ROOT_EMPTY, "", FILES);
	enter_and(sees_an_empty_root, ROOT_SOCKET, "", FILES);
}

static void
a_socket_root_holds_the_socket_and_nothing_else(void **state)
{
	(void)state;
	enter_and(sees_only_the_socket, ROOT_SOCKET, socket_path, FILES);
}

static void
a_directory_root_is_writable_and_has_no_way_out(void **state)
{
	(void)state;
	enter_and(sees_only_its_directory, ROOT_DIR, data_path, FILES);
}

static void
a_socket_that_is_none_or_a_path_that_is_relative_is_fatal(void **state)
{
	struct attempt a = {
	    .ids = our_ids(data_path), .confine = {.promises = "stdio", .root = ROOT_SOCKET}};

	(void)state;
	assert_fatal(attempt, &a, "is not a socket");
	a.ids.path = "data";
	a.confine.root = ROOT_DIR;
	assert_fatal(attempt, &a, "is not an absolute path");
}

/* What the kernel says of a confined process, read from outside. */
static void
read_file(pid_t pid, const char *name, char *buf, size_t size)
{
	char path[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	if ((fd = open(path, O_RDONLY)) == -1 || (n = read(fd, buf, size - 1)) == -1)
		fail_msg("%s: %s", path, strerror(errno));
	else
		buf[n] = '\0';
	close(fd);
}

static void
assert_has(const char *text, const char *line)
{
	if (strstr(text, line) == NULL)
		fail_msg("no \"%s\" in:\n%s", line, text);
}

static int
waits_for_the_end(void)
{
	char c;

	must(write(pair[0], "r", 1) == 1, "ready");
	return read(pair[0], &c, 1) == 1 ? 0 : -1;
}

static void
the_kernel_agrees(void **state)
{
	struct attempt a = {.fn = waits_for_the_end, .ids = our_ids("")};
	char text[8192], c;
	int status;
	pid_t pid;

	(void)state;
	if (geteuid() != 0)
		skip();
	a.ids.extra_gid = EXTRA_GID;
	a.confine = (struct confine){.promises = "stdio",
	    .root = ROOT_EMPTY,
	    .nofile = 64,
	    .fsize_max = 4096,
	    .data_max = 64 << 20};
	pid = fork();
	assert_int_not_equal(pid, -1);
	if (pid == 0) {
		dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
		attempt(&a);
		_exit(0);
	}
	assert_int_equal(read(pair[1], &c, 1), 1);
	read_file(pid, "status", text, sizeof(text));
	assert_has(text, "\nUid:\t64090\t64090\t64090\t64090\n");
	assert_has(text, "\nGid:\t64091\t64091\t64091\t64091\n");
	assert_has(text, "\nGroups:\t64092 \n");
	assert_has(text,
	    "\nCapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n");
	assert_has(text, "\nCapAmb:\t0000000000000000\n");
	assert_has(text, "\nNoNewPrivs:\t1\nSeccomp:\t2\n");
	read_file(pid, "limits", text, sizeof(text));
	assert_has(text, "Max core file size        0                    0 ");
	assert_has(text, "Max file size             4096                 4096 ");
	assert_has(text, "Max open files            64                   64 ");
#ifndef CONFINE_SANITIZED
	assert_has(text, "Max data size             67108864             67108864 ");
#endif
	assert_int_equal(write(pair[1], "e", 1), 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void
root_is_never_what_it_runs_as(void **state)
{
	struct attempt a = {
	    .ids = our_ids(""), .confine = {.promises = "stdio", .root = ROOT_EMPTY}};

	(void)state;
	if (geteuid() != 0)
		skip();
	a.ids.uid = 0;
	assert_fatal(attempt, &a, "will not run as root");
}

static int
writes_its_log(void)
{
	char line[] = "a line of the log\n";

	return write(STDERR_FILENO, line, sizeof(line)) == sizeof(line) ? 0 : -1;
}

static void
a_file_size_limit_does_not_silence_a_log_that_is_a_file(void **state)
{
	struct attempt a = {.fn = writes_its_log,
	    .ids = our_ids(""),
	    .confine = {.promises = "stdio", .root = ROOT_EMPTY, .fsize_max = 0}};
	struct forked f;

	(void)state;
	f = forked_run(attempt, &a); /* whose standard error is a file */
	assert_int_equal(f.status, 0);
	assert_has(f.log, "a line of the log");
}

/* Paths with rights of their own; the directory has a file in each. */
static const struct confine_path some[] = {
    {"/r", "r"}, {"/rw", "rw"}, {"/rwc", "rwc"}, {"/file", "r"}, {NULL, NULL}};

static int
opens(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0600), saved = errno;

	if (fd == -1)
		return saved;
	close(fd);
	return 0;
}

static int
has_the_rights_of_its_paths(void)
{
	must(opens("/r/f", O_RDONLY) == 0, "read in r");
	must(opens("/r/f", O_WRONLY) == EACCES, "write in r");
	must(opens("/r/new", O_WRONLY | O_CREAT) == EACCES, "create in r");
	must(unlink("/r/f") == -1 && errno == EACCES, "remove in r");
	must(opens("/rw/f", O_RDWR) == 0, "write in rw");
	must(opens("/rw/f", O_RDWR | O_TRUNC) == 0, "truncate in rw");
	must(opens("/rw/new", O_WRONLY | O_CREAT) == EACCES, "create in rw");
	must(opens("/rwc/new", O_WRONLY | O_CREAT) == 0, "create in rwc");
	must(rename("/rwc/new", "/rwc/newer") == 0, "rename in rwc");
	must(unlink("/rwc/newer") == 0, "remove in rwc");
	must(opens("/file", O_RDONLY) == 0, "read file");
	must(opens("/file", O_WRONLY) == EACCES, "write file");
	must(opens("/other/f", O_RDONLY) == EACCES, "what is in no list");
	must(opens("/", O_RDONLY | O_DIRECTORY) == EACCES, "list /");
	must(rename("/rwc/f", "/rw/f2") == -1, "rename out of rwc");
	return 0;
}

static void
make_files(void)
{
	static const char *const names[] = {"r", "rw", "rwc", "other"};
	char path[128];
	size_t i;
	int fd;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", data_path, names[i]);
		if (mkdir(path, 0700) == -1 && errno != EEXIST)
			fatal("mkdir");
		assert_int_not_equal(chown(path, UID, GID), geteuid() == 0 ? -1 : -2);
		strcat(path, "/f");
		fd = open(path, O_CREAT | O_WRONLY, 0600);
		assert_int_not_equal(fchown(fd, UID, GID), geteuid() == 0 ? -1 : -2);
		close(fd);
	}
	snprintf(path, sizeof(path), "%s/file", data_path);
	fd = open(path, O_CREAT | O_WRONLY, 0666);
	assert_int_not_equal(fchown(fd, UID, GID), geteuid() == 0 ? -1 : -2);
	close(fd);
}

static void
a_path_has_its_rights_and_no_other(void **state)
{
	struct attempt a = {.fn = has_the_rights_of_its_paths, .ids = our_ids(data_path)};

	(void)state;
	if (confine_landlock_abi() == 0)
		skip();
	make_files();
	a.confine =
	    (struct confine){.promises = FILES, .paths = some, .root = ROOT_DIR, .nofile = 64};
	assert_survives(attempt, &a);
}

/* Landlock alone, so that it is not seccomp that refuses. */
static void
tries_under_landlock_alone(void *arg)
{
	struct confine_ids ids = {.uid = geteuid()};
	const struct confine none = {.root = ROOT_EMPTY};
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int abi = confine_landlock_abi(), s = socket(AF_INET, SOCK_STREAM, 0);
	int *listener = arg;

	must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs");
	must(confine_landlock_enter(&none, &ids) == 0, "Landlock");
	must(opens("/", O_RDONLY | O_DIRECTORY) == EACCES, "list /");
	must(opens("/etc/passwd", O_RDONLY) == EACCES, "read a file");
	must(opens("/dev/null", O_WRONLY) == EACCES, "write a device");
	must(execl("/bin/true", "true", NULL) == -1 && errno == EACCES, "exec");
	if (abi >= 4) {
		must(
		    bind(s, (struct sockaddr *)&sin, sizeof(sin)) == -1 && errno == EACCES, "bind");
		sin.sin_port = htons(9);
		must(connect(s, (struct sockaddr *)&sin, sizeof(sin)) == -1 && errno == EACCES,
		    "connect");
	}
	if (abi >= 6) {
		socklen_t len = sizeof(sun);

		must(kill(getppid(), 0) == -1 && errno == EPERM, "signal");
		must(getsockname(*listener, (struct sockaddr *)&sun, &len) == 0, "getsockname");
		s = socket(AF_UNIX, SOCK_STREAM, 0);
		must(connect(s, (struct sockaddr *)&sun, len) == -1 && errno == EPERM,
		    "abstract socket");
	}
}

static void
without_paths_landlock_refuses_files_tcp_signals_and_abstract_sockets(void **state)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int s = socket(AF_UNIX, SOCK_STREAM, 0);

	(void)state;
	if (confine_landlock_abi() == 0)
		skip();
	assert_int_equal(bind(s, (struct sockaddr *)&sun, sizeof(sa_family_t)), 0);
	assert_int_equal(listen(s, 1), 0);
	assert_survives(tries_under_landlock_alone, &s);
	close(s);
}

/* A kernel without something, made by a filter that refuses one call. */
struct lacking {
	struct attempt attempt;
	struct confine_rule rule;
};

static void
attempt_without(void *arg)
{
	static struct confine_filter filter;
	struct lacking *l = arg;
	const struct confine_group group = {"lacking", "", &l->rule, 1};

	confine_filter_begin(&filter, SECCOMP_RET_ALLOW);
	confine_filter_add(&filter, &group);
	confine_filter_end(&filter);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == -1 || confine_filter_load(&filter) == -1)
		fatal("filter");
	attempt(&l->attempt);
}

static void
a_step_that_the_kernel_lacks_is_fatal_unless_allowed(void **state)
{
	static const struct {
		int nr, error;
		const char *step;
	} steps[] = {
	    {__NR_landlock_create_ruleset, ENOSYS, "Landlock"},
	    {__NR_seccomp, EINVAL, "a system call filter (seccomp)"},
	    {__NR_unshare, EPERM, "a root directory in a mount namespace of its own"},
	    {__NR_mount, EPERM, "a root directory in a mount namespace of its own"},
	    {__NR_move_mount, ENOSYS, "a root directory in a mount namespace of its own"},
	    {__NR_pivot_root, EINVAL, "pivot_root"},
	};
	struct lacking l = {.attempt = {.confine = {.promises = FILES, .nofile = 64}}};
	struct forked f;
	size_t i;

	(void)state;
	if (geteuid() != 0)
		skip();
	for (i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		l.rule =
		    (struct confine_rule){.nr = steps[i].nr, .error = (uint16_t)steps[i].error};
		l.attempt.confine.root = ROOT_SOCKET;
		l.attempt.ids = our_ids(socket_path);
		f = forked_run(attempt_without, &l);
		assert_true(WIFEXITED(f.status));
		assert_int_equal(WEXITSTATUS(f.status), EXIT_CONFIG);
		assert_has(f.log, steps[i].step);
		assert_has(f.log, "AGENT_SANDBOX_ALLOW_WEAKER=true starts without it");
		l.attempt.ids.allow_weaker = 1;
		l.attempt.fn = try_connect; /* what it is there for works also then */
		f = forked_run(attempt_without, &l);
		if (f.status != 0)
			fail_msg("without %s: 0x%x %s", steps[i].step, (unsigned)f.status, f.log);
		assert_has(f.log, "warning: confinement: without ");
		assert_has(f.log, steps[i].step);
		l.attempt.fn = NULL;
	}
}

/* The parent. */
static void
line_of(const char *key, char *out, size_t size)
{
	char text[8192], *at;

	read_file(getpid(), "status", text, sizeof(text));
	at = strstr(text, key);
	snprintf(out, size, "%.*s", at != NULL ? (int)strcspn(at, "\n") : 0, at != NULL ? at : "");
}

static void
refused(long r, const char *what)
{
	if (r != -1 || errno != EPERM)
		fatal("%s: %ld", what, r);
}

static void
the_parent_tries(void *arg)
{
	char before[64], after[64];
	int fd = open("/dev/null", O_RDWR);

	(void)arg;
	must(confine_parent(geteuid() == 0, 0) == 0, "confine_parent");
	line_of("Seccomp_filters", before, sizeof(before));
	must(confine_parent(geteuid() == 0, 0) == 0, "again");
	line_of("Seccomp_filters", after, sizeof(after));
	must(strcmp(before, after) == 0, "a second filter was loaded");
	refused(socket(AF_INET, SOCK_STREAM, 0), "TCP socket");
	refused(socket(AF_INET6, SOCK_DGRAM, 0), "UDP socket");
	refused(socket(AF_NETLINK, SOCK_RAW, 0), "netlink");
	refused(socket(AF_PACKET, SOCK_RAW, 0), "packet socket");
#ifndef CONFINE_SANITIZED
	refused(ptrace(PTRACE_TRACEME, 0, NULL, NULL), "ptrace");
#endif
	refused(syscall(SYS_bpf, 0, NULL, 0), "bpf");
	refused(syscall(SYS_keyctl, 0, 0), "keyctl");
	refused(syscall(SYS_io_uring_setup, 1, NULL), "io_uring");
	refused(syscall(SYS_userfaultfd, 0), "userfaultfd");
	refused(syscall(SYS_perf_event_open, NULL, 0, 0, 0, 0), "perf");
	refused(syscall(SYS_init_module, NULL, 0, ""), "module");
	refused(syscall(SYS_clock_settime, 0, NULL), "clock");
	refused(mknod("/tmp/x", S_IFCHR, 0), "device");
	refused(setns(fd, 0), "setns");
	refused(syscall(SYS_ioctl, fd, 0x100005412, "x"), "TIOCSTI with a high bit");
	if (geteuid() == 0) {
		refused(unshare(CLONE_NEWUSER), "user namespace");
		refused(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0), "user namespace");
	}
	must(socket(AF_UNIX, SOCK_STREAM, 0) != -1, "unix socket");
	must(system("true") == 0, "exec");
}

static void
the_parent_is_refused_what_it_never_needs(void **state)
{
	(void)state;
	assert_survives(the_parent_tries, NULL);
}

static void
under_the_parents_filter(void *arg)
{
	must(confine_parent(((struct attempt *)arg)->ids.as_root, 0) == 0, "confine_parent");
	attempt(arg);
}

static void
under_the_parents_filter_unprivileged(void *arg)
{
	must(confine_parent(0, 0) == 0, "confine_parent");
	attempt(arg);
}

static void
a_program_can_confine_itself_under_the_parents_filter(void **state)
{
	struct attempt a = {.fn = sees_only_the_socket,
	    .ids = our_ids(socket_path),
	    .confine = {.promises = FILES, .root = ROOT_SOCKET, .nofile = 64}};

	(void)state;
	assert_survives(under_the_parents_filter, &a);
	a.unprivileged = 1;
	assert_survives(under_the_parents_filter_unprivileged, &a);
}

static void
a_probe_sees_what_this_kernel_has(void **state)
{
	struct confine_kernel kernel = {-1, -1, -1};

	(void)state;
	confine_probe(&kernel);
	assert_int_equal(kernel.landlock_abi, confine_landlock_abi());
	assert_int_equal(kernel.seccomp, 1);
	assert_in_range(kernel.user_namespaces, 0, 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_a_promise_gives_works_and_all_else_kills),
	    cmocka_unit_test(all_promises_together_do_not_give_what_none_gives),
	    cmocka_unit_test(an_empty_root_holds_nothing_and_takes_nothing),
	    cmocka_unit_test(a_socket_root_holds_the_socket_and_nothing_else),
	    cmocka_unit_test(a_directory_root_is_writable_and_has_no_way_out),
	    cmocka_unit_test(a_socket_that_is_none_or_a_path_that_is_relative_is_fatal),
	    cmocka_unit_test(the_kernel_agrees),
	    cmocka_unit_test(root_is_never_what_it_runs_as),
	    cmocka_unit_test(a_file_size_limit_does_not_silence_a_log_that_is_a_file),
	    cmocka_unit_test(a_path_has_its_rights_and_no_other),
	    cmocka_unit_test(without_paths_landlock_refuses_files_tcp_signals_and_abstract_sockets),
	    cmocka_unit_test(a_step_that_the_kernel_lacks_is_fatal_unless_allowed),
	    cmocka_unit_test(the_parent_is_refused_what_it_never_needs),
	    cmocka_unit_test(a_program_can_confine_itself_under_the_parents_filter),
	    cmocka_unit_test(a_probe_sees_what_this_kernel_has),
	};

	log_init("test", LOG_LEVEL_DEBUG);
	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
