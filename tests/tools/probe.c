/* The attempts of a probe build; see probe.h. Each is what somebody would try who has taken the
 * program over. */
#include "tests/tools/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

static const char *wanted = "";
static pid_t parent;

/* main() has no use for arguments, so they are taken before it; getppid(2) will not be there later.
 */
static void __attribute__((constructor)) keep_argument(int argc, char **argv)
{
	if (argc > 1)
		wanted = argv[1];
	parent = getppid();
}

static long
connect_inet(void)
{
	struct sockaddr_in sin = {
	    .sin_family = AF_INET, .sin_port = htons(9), .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int s = socket(AF_INET, SOCK_STREAM, 0);

	return s == -1 ? -1 : connect(s, (struct sockaddr *)&sin, sizeof(sin));
}

static long
connect_outwards(void)
{
	struct sockaddr_in sin = {
	    .sin_family = AF_INET, .sin_port = htons(9), .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int s = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (s == -1)
		return -1;
	return connect(s, (struct sockaddr *)&sin, sizeof(sin)) == 0 || errno == EINPROGRESS ||
		       errno == ECONNREFUSED
		   ? 0
		   : -1;
}

static long
new_socket(int family, int type, int protocol)
{
	return socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol);
}

static long
bind_new_socket(void)
{
	struct sockaddr_in sin = {.sin_family = AF_INET};

	return bind((int)new_socket(AF_INET, SOCK_DGRAM, 0), (struct sockaddr *)&sin, sizeof(sin));
}

static long
listen_on_new_socket(void)
{
	return listen((int)new_socket(AF_INET, SOCK_STREAM, 0), 1);
}

static long
send_new_datagram(void)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons(9)};

	return sendto((int)new_socket(AF_INET, SOCK_DGRAM, 0), "x", 1, 0, (struct sockaddr *)&sin,
	    sizeof(sin));
}

static long
connect_path(const char *path)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);

	memcpy(sun.sun_path, path, strlen(path) + 1);
	return s == -1 ? -1 : connect(s, (struct sockaddr *)&sun, sizeof(sun));
}

static long
connect_abstract(void)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX, .sun_path = "\0agent-sandbox-probe"};
	int s = socket(AF_UNIX, SOCK_STREAM, 0);

	return s == -1 ? -1
		       : connect(s, (struct sockaddr *)&sun,
			     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 20));
}

static long
send_unix_datagram(void)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX, .sun_path = "/dev/log"};

	return sendto(4, "x", 1, MSG_DONTWAIT, (struct sockaddr *)&sun, sizeof(sun));
}

static long
bind_a_socket(void)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX, .sun_path = "/probe.sock"};

	return bind(4, (struct sockaddr *)&sun, sizeof(sun));
}

static long
read_memory_of_parent(void)
{
	char byte;
	struct iovec here = {&byte, 1}, there = {(void *)&wanted, 1};

	return process_vm_readv(parent, &here, 1, &there, 1, 0);
}

static long
executable_memory(void)
{
	return mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		   0) == MAP_FAILED
		   ? -1
		   : 0;
}

static long
raise_a_limit(void)
{
	struct rlimit r = {1 << 20, 1 << 20};

	return setrlimit(RLIMIT_NOFILE, &r);
}

static long
exec_shell(void)
{
	char *const argv[] = {"sh", NULL}, *const envp[] = {NULL};

	return execve("/bin/sh", argv, envp);
}

static long
link_out(void)
{
	return symlink("/etc/passwd", "/probe-link");
}

static long
hard_link(void)
{
	return link("/probe", "/probe2");
}

static long
climb_out(void)
{
	return open("../../../../../../etc/passwd", O_RDONLY);
}

/* On x86 the 32-bit entry has other numbers: 20 is getpid(2) there, and writev(2) here. */
static long
call_by_32_bit_entry(void)
{
#ifdef __x86_64__
	long r;

	__asm__ volatile("int $0x80" : "=a"(r) : "a"(20) : "memory");
	return r;
#else
	return syscall(SYS_reboot, 0, 0, 0, NULL);
#endif
}

#define ATTEMPTS(X)                                                                               \
	X(open_etc_passwd, open("/etc/passwd", O_RDONLY))                                         \
	X(climb_out, climb_out())                                                                 \
	X(open_root, open("/", O_RDONLY | O_DIRECTORY))                                           \
	X(open_proc, open("/proc/self/status", O_RDONLY))                                         \
	X(open_docker_socket_of_host, open("/var/run/docker.sock", O_PATH))                       \
	X(create_file, open("/probe", O_WRONLY | O_CREAT, 0600))                                  \
	X(create_executable, open("/probe-x", O_WRONLY | O_CREAT, 0755))                          \
	X(remove_socket, unlink("/docker.sock"))                                                  \
	X(make_directory, mkdir("/probe-dir", 0700))                                              \
	X(make_symlink, link_out())                                                               \
	X(make_hard_link, hard_link())                                                            \
	X(make_device, mknod("/probe-dev", S_IFCHR | 0600, 0x0101))                               \
	X(change_owner, chown("/", 0, 0))                                                         \
	X(change_directory, chdir("/.."))                                                         \
	X(connect_inet, connect_inet())                                                           \
	X(connect_host_socket, connect_path("/var/run/docker.sock"))                              \
	X(connect_own_socket, connect_path("/docker.sock"))                                       \
	X(connect_abstract, connect_abstract())                                                   \
	X(udp_socket, socket(AF_INET, SOCK_DGRAM, 0))                                             \
	X(connect_outwards, connect_outwards())                                                   \
	X(new_udp_socket, new_socket(AF_INET6, SOCK_DGRAM, 0))                                    \
	X(raw_socket, new_socket(AF_INET, SOCK_RAW, IPPROTO_ICMP))                                \
	X(ping_socket, new_socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP))                             \
	X(bind_new_socket, bind_new_socket())                                                     \
	X(listen_on_new_socket, listen_on_new_socket())                                           \
	X(send_new_datagram, send_new_datagram())                                                 \
	X(netlink_socket, socket(AF_NETLINK, SOCK_RAW, 0))                                        \
	X(packet_socket, socket(AF_PACKET, SOCK_RAW, 0))                                          \
	X(vsock_socket, socket(AF_VSOCK, SOCK_STREAM, 0))                                         \
	X(datagram_to_syslog, send_unix_datagram())                                               \
	X(bind_socket, bind_a_socket())                                                           \
	X(listen_on_socket, listen(4, 1))                                                         \
	X(fork, syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0))                                          \
	X(exec, exec_shell())                                                                     \
	X(exec_from_descriptor, syscall(SYS_execveat, 2, "", NULL, NULL, AT_EMPTY_PATH))          \
	X(file_in_memory, memfd_create("probe", 0))                                               \
	X(executable_memory, executable_memory())                                                 \
	X(ptrace_parent, ptrace(PTRACE_ATTACH, parent, NULL, NULL))                               \
	X(ptrace_init, ptrace(PTRACE_SEIZE, 1, NULL, NULL))                                       \
	X(read_memory_of_parent, read_memory_of_parent())                                         \
	X(kill_parent, kill(parent, SIGKILL))                                                     \
	X(kill_all, kill(-1, SIGKILL))                                                            \
	X(signal_thread_of_parent, syscall(SYS_tgkill, parent, parent, SIGKILL))                  \
	X(open_process, syscall(SYS_pidfd_open, parent, 0))                                       \
	X(take_descriptor, syscall(SYS_pidfd_getfd, 3, 0, 0))                                     \
	X(limit_parent, syscall(SYS_prlimit64, parent, RLIMIT_NOFILE, &(struct rlimit){0}, NULL)) \
	X(raise_limit, raise_a_limit())                                                           \
	X(nice_parent, setpriority(PRIO_PROCESS, (id_t)parent, 19))                               \
	X(become_root, setuid(0))                                                                 \
	X(become_root_group, setgid(0))                                                           \
	X(take_capabilities, syscall(SYS_capset, NULL, NULL))                                     \
	X(become_dumpable, prctl(PR_SET_DUMPABLE, 1, 0, 0, 0))                                    \
	X(second_filter, syscall(SYS_seccomp, 1, 0, NULL))                                        \
	X(mount, mount("none", "/", "tmpfs", 0, NULL))                                            \
	X(unmount, umount2("/", MNT_DETACH))                                                      \
	X(chroot, chroot("/"))                                                                    \
	X(pivot_root, syscall(SYS_pivot_root, ".", "."))                                          \
	X(new_user_namespace, unshare(CLONE_NEWUSER))                                             \
	X(new_mount_namespace, unshare(CLONE_NEWNS))                                              \
	X(enter_namespace, setns(3, 0))                                                           \
	X(open_by_handle, syscall(SYS_open_by_handle_at, 3, NULL, O_RDONLY))                      \
	X(load_module, syscall(SYS_init_module, NULL, 0, ""))                                     \
	X(bpf, syscall(SYS_bpf, 0, NULL, 0))                                                      \
	X(perf, syscall(SYS_perf_event_open, NULL, 0, 0, 0, 0))                                   \
	X(io_uring, syscall(SYS_io_uring_setup, 1, NULL))                                         \
	X(userfaultfd, syscall(SYS_userfaultfd, 0))                                               \
	X(keyring, syscall(SYS_keyctl, 0, 0))                                                     \
	X(shared_memory, syscall(SYS_shmget, 0, 4096, 01600))                                     \
	X(message_queue, syscall(SYS_msgget, 0, 01600))                                           \
	X(set_clock, syscall(SYS_clock_settime, 0, NULL))                                         \
	X(reboot, syscall(SYS_reboot, 0, 0, 0, NULL))                                             \
	X(type_into_terminal, ioctl(2, TIOCSTI, "x"))                                             \
	X(watch_files, syscall(SYS_inotify_init1, 0))                                             \
	X(call_by_32_bit_entry, call_by_32_bit_entry())

#define X_FUNCTION(name, expression)     \
	static long attempt_##name(void) \
	{                                \
		return expression;       \
	}
ATTEMPTS(X_FUNCTION)

#define X_ROW(name, expression) {#name, attempt_##name},
static const struct {
	const char *name;
	long (*fn)(void);
} attempts[] = {ATTEMPTS(X_ROW)};

void
probe_run(void)
{
	char line[128];
	long r;
	size_t i;
	int n;

	for (i = 0; i < sizeof(attempts) / sizeof(attempts[0]); i++) {
		if (strcmp(attempts[i].name, wanted) != 0)
			continue;
		errno = 0;
		r = attempts[i].fn();
		n = snprintf(line, sizeof(line), "probe %s: %s %d\n", wanted,
		    r < 0 ? "refused" : "done", errno);
		if (write(STDERR_FILENO, line, (size_t)n) == -1)
			_exit(3);
		_exit(0);
	}
	_exit(4);
}
