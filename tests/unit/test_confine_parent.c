/* The parent's filter: it refuses what nobody needs, once, and its programs can still confine
 * themselves. */
#include "tests/unit/confined.h"

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
	refused(socket(AF_INET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 1), "raw socket");
	refused(socket(AF_NETLINK, SOCK_RAW, 0), "netlink");
	refused(socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 15), "other netlink");
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
	must(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0) != -1, "for egressd");
	must(socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0) != -1, "for egressd");
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
	    cmocka_unit_test(the_parent_is_refused_what_it_never_needs),
	    cmocka_unit_test(a_program_can_confine_itself_under_the_parents_filter),
	    cmocka_unit_test(a_probe_sees_what_this_kernel_has),
	};

	log_init("test", LOG_LEVEL_DEBUG);
	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
