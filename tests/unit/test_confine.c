/*
 * Confinement as the kernel enforces it: the root directory, ids, limits and paths are what was
 * asked for, and what a kernel lacks is fatal unless that is allowed.
 */
#include "tests/unit/confined.h"

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

static int
connects_by_tcp(void)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int s = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	sin.sin_port = htons(1);
	if (connect(s, (struct sockaddr *)&sin, sizeof(sin)) == -1 && errno == EACCES)
		return -1;
	return 0;
}

static void
tcp_goes_outwards_only_where_it_is_said(void **state)
{
	struct attempt a = {.ids = our_ids(""), .fn = connects_by_tcp};

	(void)state;
	if (confine_landlock_abi() < 4)
		skip();
	a.confine = (struct confine){
	    .promises = "stdio connect", .root = ROOT_EMPTY, .nofile = 64, .tcp_out = 1};
	assert_survives(attempt, &a);
	a.confine.tcp_out = 0;
	assert_fatal(attempt, &a, "the attempt failed: Permission denied");
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
		if (!WIFEXITED(f.status) || WEXITSTATUS(f.status) != EXIT_CONFIG)
			fail_msg("without %s: 0x%x %s", steps[i].step, (unsigned)f.status, f.log);
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

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(an_empty_root_holds_nothing_and_takes_nothing),
	    cmocka_unit_test(a_socket_root_holds_the_socket_and_nothing_else),
	    cmocka_unit_test(a_directory_root_is_writable_and_has_no_way_out),
	    cmocka_unit_test(a_socket_that_is_none_or_a_path_that_is_relative_is_fatal),
	    cmocka_unit_test(the_kernel_agrees),
	    cmocka_unit_test(root_is_never_what_it_runs_as),
	    cmocka_unit_test(a_file_size_limit_does_not_silence_a_log_that_is_a_file),
	    cmocka_unit_test(a_path_has_its_rights_and_no_other),
	    cmocka_unit_test(without_paths_landlock_refuses_files_tcp_signals_and_abstract_sockets),
	    cmocka_unit_test(tcp_goes_outwards_only_where_it_is_said),
	    cmocka_unit_test(a_step_that_the_kernel_lacks_is_fatal_unless_allowed),
	};

	log_init("test", LOG_LEVEL_DEBUG);
	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
