/* What a client of the API has given up: each part as the kernel enforces it. */
#include "tests/unit/forked.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "common/confine_client.h"
#include "common/confine_rules.h"
#include "common/log.h"

static void
must(int ok, const char *what)
{
	if (!ok)
		fatal("%s", what);
}

static void
refused(long r, const char *what)
{
	if (r != -1 || errno != EPERM)
		fatal("%s: %ld", what, r);
}

static void *
thread(void *arg)
{
	*(int *)arg = 1;
	return NULL;
}

static void
tries_what_is_refused(void *arg)
{
	struct sockaddr_in here = {.sin_family = AF_INET};
	int s;

	(void)arg;
	must(confine_client(NULL) == 0, "confine_client");
	refused(execl("/bin/true", "true", NULL), "exec");
	refused(syscall(SYS_execveat, AT_FDCWD, "/bin/true", NULL, NULL, 0), "execveat");
	refused(fork(), "fork");
	refused(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0), "clone");
	refused(kill(getppid(), 0), "kill");
	must((s = socket(AF_INET, SOCK_STREAM, 0)) != -1, "TCP socket");
	must(bind(s, (struct sockaddr *)&here, sizeof(here)) == 0, "bind");
	refused(listen(s, 1), "listen");
	refused(socket(AF_PACKET, SOCK_RAW, 0), "packet socket");
	refused(mount("none", "/mnt", "tmpfs", 0, NULL), "mount");
	refused(umount("/proc"), "umount");
	refused(chroot("/"), "chroot");
	refused(unshare(CLONE_NEWNS), "unshare");
	refused(syscall(SYS_setuid, 0), "setuid");
	refused(syscall(SYS_bpf, 0, NULL, 0), "bpf");
	refused(syscall(SYS_keyctl, 0, 0), "keyctl");
	refused(syscall(SYS_io_uring_setup, 1, NULL), "io_uring");
	refused(syscall(SYS_init_module, NULL, 0, ""), "module");
	refused(syscall(SYS_memfd_create, "x", 0), "code that is in no file");
	refused(syscall(SYS_process_vm_readv, getppid(), NULL, 0, NULL, 0, 0), "others' memory");
#ifndef CONFINE_SANITIZED
	refused(ptrace(PTRACE_TRACEME, 0, NULL, NULL), "ptrace");
#endif
}

static void
client_cannot_do_what_it_never_needs(void **state)
{
	(void)state;
	assert_survives(tries_what_is_refused, NULL);
}

static void
looks_at_itself(void *arg)
{
	struct rlimit core;

	(void)arg;
	must(confine_client(NULL) == 0, "confine_client");
	must(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1, "new privileges");
	must(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0, "dumpable");
	must(getrlimit(RLIMIT_CORE, &core) == 0 && core.rlim_max == 0, "core");
}

static void
client_leaves_no_core_and_cannot_be_looked_into(void **state)
{
	(void)state;
	assert_survives(looks_at_itself, NULL);
}

static void
works_on(void *arg)
{
	struct addrinfo *found = NULL,
			hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
	pthread_t t;
	int ran = 0;

	(void)arg;
	must(confine_client(NULL) == 0, "confine_client");
	must(pthread_create(&t, NULL, thread, &ran) == 0 && pthread_join(t, NULL) == 0 && ran == 1,
	    "a thread, for names of hosts");
	must(getaddrinfo("localhost", "80", &hints, &found) == 0, "a name");
	freeaddrinfo(found);
	must(socket(AF_INET6, SOCK_STREAM, 0) != -1 || errno == EAFNOSUPPORT, "TCP over IPv6");
	must(open("/tmp", O_RDONLY | O_DIRECTORY) != -1, "files, without a list of paths");
}

static void
client_still_finds_hosts_and_connects(void **state)
{
	(void)state;
	assert_survives(works_on, NULL);
}

static void
reaches_only_the_list(void *arg)
{
	static const struct confine_path paths[] = {
	    {"/etc/hosts", "r"}, {"/no/such/file", "r"}, {"/usr/lib", "r"}, {NULL, NULL}};
	struct sockaddr_in here = {.sin_family = AF_INET};

	(void)arg;
	must(confine_client(paths) == 0, "confine_client");
	must(open("/etc/hosts", O_RDONLY) != -1, "what is in the list");
	must(open("/etc/hosts", O_RDWR) == -1 && errno == EACCES, "writing it");
	must(open("/usr/lib/os-release", O_RDONLY) != -1, "what is below a folder in the list");
	must(open("/etc/passwd", O_RDONLY) == -1 && errno == EACCES, "another file");
	must(open("/root", O_RDONLY | O_DIRECTORY) == -1 && errno == EACCES, "another folder");
	must(mkdir("/tmp/test_confine_client", 0700) == -1 && errno == EACCES, "a new folder");
	if (confine_landlock_abi() >= 4)
		must(bind(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&here,
			 sizeof(here)) == -1 &&
			 errno == EACCES,
		    "a port");
	must(connect(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&here, sizeof(here)) ==
		     -1 &&
		 errno == ECONNREFUSED,
	    "connecting");
}

static void
client_with_a_list_of_paths_reaches_nothing_else(void **state)
{
	(void)state;
	if (confine_landlock_abi() == 0)
		skip();
	assert_survives(reaches_only_the_list, NULL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(client_cannot_do_what_it_never_needs),
	    cmocka_unit_test(client_leaves_no_core_and_cannot_be_looked_into),
	    cmocka_unit_test(client_still_finds_hosts_and_connects),
	    cmocka_unit_test(client_with_a_list_of_paths_reaches_nothing_else),
	};

	log_init("test", LOG_LEVEL_DEBUG);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
