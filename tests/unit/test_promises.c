/*
 * Promises as the kernel enforces them: in forked children that confine themselves and then try.
 * What a promise gives works; what none of a program's promises gives kills.
 */
#include "tests/unit/confined.h"

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
try_inet_socket(void)
{
	return socket(AF_INET, SOCK_STREAM, 0);
}

static int
try_new_socket(int family, int type, int protocol)
{
	int s = socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol);

	return s == -1 && errno != EAFNOSUPPORT ? -1 : 0;
}

static int
try_tcp_outwards(void)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int s = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	sin.sin_port = htons(1);
	if (s == -1 || (connect(s, (struct sockaddr *)&sin, sizeof(sin)) == -1 &&
			   errno != EINPROGRESS && errno != ECONNREFUSED))
		return -1;
	return 0;
}

static int
try_tcp6(void)
{
	return try_new_socket(AF_INET6, SOCK_STREAM, 0);
}

static int
try_udp(void)
{
	return try_new_socket(AF_INET, SOCK_DGRAM, 0);
}

static int
try_raw(void)
{
	return try_new_socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
}

static int
try_ping(void)
{
	return try_new_socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP);
}

static int
try_mptcp(void)
{
	return try_new_socket(AF_INET, SOCK_STREAM, 262);
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
    {"send", "stream inet connect unix", try_send},
    {"accept", "inet", try_accept},
    {"connect", "unix", try_connect},
    {"TCP outwards", "connect", try_tcp_outwards},
    {"TCP over IPv6", "connect", try_tcp6},
    {"UDP", "connect", try_udp},
    {"open", "rpath wpath cpath", try_open},
    {"open for writing", "wpath cpath", try_open_for_writing},
    {"create", "cpath", try_to_create},
    {"mkdir", "cpath", try_mkdir},
    {"executable memory", "", try_code},
    {"memory made executable", "", try_to_make_code},
    {"send to an address", "", try_send_to_an_address},
    {"socketpair of another family", "", try_inet_socketpair},
    {"TCP socket", "", try_inet_socket},
    {"raw socket", "", try_raw},
    {"ping socket", "", try_ping},
    {"multipath TCP", "", try_mptcp},
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
	return fn == try_connect || fn == try_inet_socket || fn == try_netlink ||
	       fn == try_tcp_outwards || fn == try_tcp6 || fn == try_udp || fn == try_raw ||
	       fn == try_ping || fn == try_mptcp;
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
	a.confine.tcp_out = listed(promise, "connect");
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
			check_try(i, "event recvfd sendfd socketpair stream inet unix connect "
				     "rpath wpath cpath");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_a_promise_gives_works_and_all_else_kills),
	    cmocka_unit_test(all_promises_together_do_not_give_what_none_gives),
	};

	log_init("test", LOG_LEVEL_DEBUG);
	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
