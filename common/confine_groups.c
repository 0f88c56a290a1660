/*
 * The vocabulary of promises: groups of system calls, each with its reason. Data only;
 * confine_filter.c makes a filter of them. Arguments are tested where the call does more than the
 * promise says. What no group of a program names kills it. Before a row is added: who calls it, and
 * what could somebody do with it who has taken the program over?
 */
#include "common/confine_rules.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <termios.h>

#include <linux/netlink.h>

/* Newer than the oldest headers that we build with; the same number on every architecture. */
#ifndef __NR_fchmodat2
#define __NR_fchmodat2 452
#endif
#ifndef __NR_map_shadow_stack
#define __NR_map_shadow_stack 453
#endif
#ifndef __NR_mseal
#define __NR_mseal 462
#endif

#define EQ(arg, value)                          \
	{                                       \
		OP_EQ, (arg), (uint64_t)(value) \
	}
#define WITHIN(arg, bits)                          \
	{                                          \
		OP_WITHIN, (arg), (uint64_t)(bits) \
	}
#define EQ32(arg, value)                          \
	{                                         \
		OP_EQ32, (arg), (uint32_t)(value) \
	}
#define SOME32(arg, bits)                          \
	{                                          \
		OP_SOME32, (arg), (uint32_t)(bits) \
	}
#define SELF(arg)                 \
	{                         \
		OP_SELF, (arg), 0 \
	}
#define NO_TEST               \
	{                     \
		OP_NONE, 0, 0 \
	}

/* At most CONFINE_TESTS tests; what is not written is NO_TEST. */
#define ROW(call, error, ...)       \
	{                           \
		__NR_##call, error, \
		{                   \
			__VA_ARGS__ \
		}                   \
	}
#define ALLOW(call) ROW(call, 0, NO_TEST)
#define ALLOW_IF(call, ...) ROW(call, 0, __VA_ARGS__)
#define REFUSE(call, error) ROW(call, error, NO_TEST)
#define REFUSE_IF(call, error, test) ROW(call, error, test)

static const struct confine_rule stdio_rules[] = {
    /* descriptors that are open */
    ALLOW(read),
    ALLOW(readv),
    ALLOW(pread64),
    ALLOW(write),
    ALLOW(writev),
    ALLOW(pwrite64),
    ALLOW(lseek),
    ALLOW(close),
    ALLOW(dup),
    ALLOW(fstat),
    ALLOW_IF(newfstatat, EQ(3, AT_EMPTY_PATH)), /* fstat(3) of some libc versions */
    ALLOW(fsync),
    ALLOW(fdatasync),
    ALLOW(ftruncate),
    ALLOW_IF(fcntl, EQ(1, F_GETFL)),
    ALLOW_IF(fcntl, EQ(1, F_SETFL)),
    ALLOW_IF(fcntl, EQ(1, F_GETFD)),
    ALLOW_IF(fcntl, EQ(1, F_SETFD)),
    ALLOW_IF(fcntl, EQ(1, F_DUPFD_CLOEXEC)),
    ALLOW(ppoll),
#ifdef __NR_poll
    ALLOW(poll),
#endif
    /* memory: never executable */
    ALLOW(brk),
    ALLOW_IF(mmap, WITHIN(2, PROT_READ | PROT_WRITE)),
    ALLOW_IF(mprotect, WITHIN(2, PROT_READ | PROT_WRITE)),
    ALLOW(munmap),
    ALLOW(mremap),
    ALLOW(madvise),
    /* time, chance */
    ALLOW(clock_gettime),
    ALLOW(clock_getres),
    ALLOW(clock_nanosleep),
    ALLOW(nanosleep),
    ALLOW(gettimeofday),
#ifdef __NR_time
    ALLOW(time),
#endif
    ALLOW(getrandom),
    /* oneself */
    ALLOW(getpid),
    ALLOW(gettid),
    ALLOW(getuid),
    ALLOW(geteuid),
    ALLOW(getgid),
    ALLOW(getegid),
    ALLOW(getrusage),
    ALLOW_IF(prlimit64, EQ(0, 0), EQ(2, 0)), /* reading one's own limits */
    ALLOW(sysinfo),                          /* qsort(3): how much memory there is */
    ALLOW(futex),
    ALLOW(sched_yield),
    /* signals, the end */
    ALLOW(rt_sigaction),
    ALLOW(rt_sigprocmask),
    ALLOW(rt_sigreturn),
    ALLOW(restart_syscall),
    ALLOW_IF(tgkill, SELF(0)), /* abort(3) */
    ALLOW(exit),
    ALLOW(exit_group),
};

static const struct confine_rule event_rules[] = {
    ALLOW(epoll_create1), ALLOW(epoll_ctl), ALLOW(epoll_pwait),
#ifdef __NR_epoll_wait
    ALLOW(epoll_wait),
#endif
    ALLOW(epoll_pwait2), ALLOW(timerfd_create), ALLOW(timerfd_settime), ALLOW(eventfd2),
    ALLOW(pipe2), ALLOW_IF(ioctl, EQ(1, FIONREAD)), /* evbuffer_read(3) */
};

/* Channels: setsockopt(2) and getsockopt(2) are for a new channel's room and to see what a received
 * socket is. */
static const struct confine_rule recvfd_rules[] = {
    ALLOW(recvmsg),
    ALLOW_IF(getsockopt, EQ(1, SOL_SOCKET)),
    ALLOW_IF(setsockopt, EQ(1, SOL_SOCKET), EQ(2, SO_SNDBUF)),
    ALLOW_IF(setsockopt, EQ(1, SOL_SOCKET), EQ(2, SO_RCVBUF)),
};

static const struct confine_rule sendfd_rules[] = {
    ALLOW(sendmsg),
};

static const struct confine_rule socketpair_rules[] = {
    ALLOW_IF(socketpair, EQ(0, AF_UNIX)),
};

static const struct confine_rule stream_rules[] = {
    ALLOW_IF(recvfrom, EQ(4, 0)), /* no address: recv(3) */
    ALLOW_IF(sendto, EQ(4, 0)),   /* no address: send(3) on what is connected */
    ALLOW(shutdown),
    ALLOW_IF(getsockopt, EQ(1, SOL_SOCKET)),
};

static const struct confine_rule inet_rules[] = {
    ALLOW(accept4),
    /* getnameinfo(3) of a link-local client asks for a socket; it must not kill. */
    REFUSE(socket, EACCES),
    /* libevent tries it when accept4(2) says EINVAL: the port is not open yet. */
    REFUSE(accept, EINVAL),
    ALLOW(getsockname),
    ALLOW(getpeername),
    ALLOW_IF(recvfrom, EQ(4, 0)),
    ALLOW_IF(sendto, EQ(4, 0)),
    ALLOW(shutdown),
    ALLOW_IF(getsockopt, EQ(1, SOL_SOCKET)),
    ALLOW_IF(setsockopt, EQ(1, SOL_SOCKET), EQ(2, SO_KEEPALIVE)),
    ALLOW_IF(setsockopt, EQ(1, SOL_SOCKET), EQ(2, SO_LINGER)),
    ALLOW_IF(setsockopt, EQ(1, SOL_SOCKET), EQ(2, SO_SNDBUF)),
    ALLOW_IF(setsockopt, EQ(1, SOL_SOCKET), EQ(2, SO_RCVBUF)),
    ALLOW_IF(setsockopt, EQ(1, IPPROTO_TCP), EQ(2, TCP_NODELAY)),
    ALLOW_IF(setsockopt, EQ(1, IPPROTO_TCP), EQ(2, TCP_CORK)),
    ALLOW_IF(setsockopt, EQ(1, IPPROTO_TCP), EQ(2, TCP_KEEPIDLE)),
    ALLOW_IF(setsockopt, EQ(1, IPPROTO_TCP), EQ(2, TCP_KEEPINTVL)),
    ALLOW_IF(setsockopt, EQ(1, IPPROTO_TCP), EQ(2, TCP_KEEPCNT)),
    ALLOW_IF(setsockopt, EQ(1, IPPROTO_TCP), EQ(2, TCP_USER_TIMEOUT)),
};

#define NEW_TCP (SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC)
#define NEW_UDP (SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC)

/* Exact types, no protocol: neither raw sockets nor those that only look like TCP. Where it may
 * connect to no filter can see: that is the program's own business. */
static const struct confine_rule connect_rules[] = {
    ALLOW_IF(socket, EQ(0, AF_INET), EQ(1, NEW_TCP), EQ(2, 0)),
    ALLOW_IF(socket, EQ(0, AF_INET6), EQ(1, NEW_TCP), EQ(2, 0)),
    ALLOW_IF(socket, EQ(0, AF_INET), EQ(1, NEW_UDP), EQ(2, 0)),
    ALLOW_IF(socket, EQ(0, AF_INET6), EQ(1, NEW_UDP), EQ(2, 0)),
    ALLOW(connect),
    ALLOW(getsockname),
    ALLOW(recvfrom), /* answers of name servers, and who sent them */
    ALLOW_IF(sendto, EQ(4, 0)),
    ALLOW(shutdown),
    ALLOW_IF(getsockopt, EQ(1, SOL_SOCKET)),
    ALLOW_IF(setsockopt, EQ(1, SOL_SOCKET), EQ(2, SO_LINGER)),
    ALLOW_IF(setsockopt, EQ(1, IPPROTO_TCP), EQ(2, TCP_NODELAY)),
};

static const struct confine_rule unix_rules[] = {
    ALLOW_IF(socket, EQ(0, AF_UNIX)),
    ALLOW_IF(socketpair, EQ(0, AF_UNIX)), /* libcurl's wake-up */
    ALLOW(connect),
    ALLOW(getsockname),
    ALLOW(getpeername),
    ALLOW_IF(getsockopt, EQ(1, SOL_SOCKET)),
    ALLOW_IF(recvfrom, EQ(4, 0)),
    ALLOW_IF(sendto, EQ(4, 0)),
    ALLOW(shutdown),
};

#ifndef O_LARGEFILE_KERNEL
#if defined(__x86_64__)
#define O_LARGEFILE_KERNEL 0100000 /* libc calls it 0, and openat(2) may still be given it */
#else
#define O_LARGEFILE_KERNEL 0400000
#endif
#endif
#define OPEN_READ                                                                           \
	(O_RDONLY | O_CLOEXEC | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_PATH | \
	    O_LARGEFILE_KERNEL)
#define OPEN_WRITE (OPEN_READ | O_WRONLY | O_RDWR | O_APPEND | O_TRUNC | O_SYNC)
#define OPEN_CREATE (OPEN_WRITE | O_CREAT | O_EXCL)

static const struct confine_rule rpath_rules[] = {
    ALLOW_IF(openat, WITHIN(2, OPEN_READ)),
    ALLOW(newfstatat),
    ALLOW(statx),
    ALLOW(statfs),
    ALLOW(fstatfs),
    ALLOW(getdents64),
    ALLOW(readlinkat),
    ALLOW(faccessat),
    ALLOW(faccessat2),
#ifdef __NR_access
    ALLOW(access),
#endif
#ifdef __NR_readlink
    ALLOW(readlink),
#endif
};

static const struct confine_rule wpath_rules[] = {
    ALLOW_IF(openat, WITHIN(2, OPEN_WRITE)),
    ALLOW(fallocate),
    ALLOW(flock),
    ALLOW(fchmod),
};

static const struct confine_rule cpath_rules[] = {
    ALLOW_IF(openat, WITHIN(2, OPEN_CREATE)),
    ALLOW(mkdirat),
    ALLOW(unlinkat),
    ALLOW(renameat),
    ALLOW(renameat2),
#ifdef __NR_mkdir
    ALLOW(mkdir),
    ALLOW(rmdir),
    ALLOW(unlink),
    ALLOW(rename),
#endif
};

#define GROUP(name, why, rules)                                    \
	{                                                          \
		name, why, rules, sizeof(rules) / sizeof(rules[0]) \
	}

const struct confine_group confine_groups[] = {
    GROUP("stdio", "use what is open, own memory that is never executable, own signals, time; end",
	stdio_rules),
    GROUP("event", "wait for descriptors and timers", event_rules),
    GROUP("recvfd", "receive on a channel, with descriptors", recvfd_rules),
    GROUP("sendfd", "send on a channel, with descriptors (Linux cannot tell with from without)",
	sendfd_rules),
    GROUP("socketpair", "make the two ends of a data socket", socketpair_rules),
    GROUP("stream", "read and write sockets that were received", stream_rules),
    GROUP("inet", "accept and serve TCP clients; no new socket, no connect, no bind", inet_rules),
    GROUP("connect", "make TCP and UDP sockets and connect them; no bind, no listen, no accept",
	connect_rules),
    GROUP("unix", "connect to a unix socket that is in the root directory", unix_rules),
    GROUP("rpath", "open and list what Landlock lets through, for reading", rpath_rules),
    GROUP("wpath", "write, lock and set the mode of such files", wpath_rules),
    GROUP("cpath", "create, rename and remove them", cpath_rules),
    {NULL, NULL, NULL, 0},
};

/* What libraries try by the way, and do without when it is refused. */
static const struct confine_rule always_rules[] = {
    REFUSE_IF(ioctl, ENOTTY, EQ(1, TCGETS)), /* stdio: is this a terminal? */
    REFUSE(clone3, ENOSYS),
    REFUSE(rseq, ENOSYS),
    REFUSE(membarrier, ENOSYS),
    REFUSE(fchmodat2, ENOSYS), /* newer libc versions fall back from these */
    REFUSE(map_shadow_stack, ENOSYS),
    REFUSE(mseal, ENOSYS),
    REFUSE_IF(prctl, EINVAL, EQ(0, PR_SET_VMA)), /* malloc naming its memory */
    REFUSE(sched_getaffinity, ENOSYS),           /* how many processors: one */
#ifdef CONFINE_SANITIZED
    /* Reports of the sanitizers; such a build is for tests only. */
    ALLOW(sigaltstack),
    ALLOW(openat),
    ALLOW(newfstatat),
    ALLOW(readlinkat),
#ifdef __NR_readlink
    ALLOW(readlink),
#endif
    ALLOW(prctl),
    ALLOW(mmap),
    ALLOW(mprotect),
    ALLOW(prlimit64),
    ALLOW(getppid),
    ALLOW(uname),
    ALLOW(pipe2),
    ALLOW(process_vm_readv),
    ALLOW(sched_getaffinity),
#endif /* CONFINE_SANITIZED */
};
const struct confine_group confine_group_always =
    GROUP("always", "what libraries try, and do without", always_rules);

/*
 * The parent starts programs, so its filter is inherited by them and survives its own re-exec; it
 * may only refuse what none of them needs on its way into its own confinement. Refusals, not kills:
 * a program that probes for a newer call must get an error that it can handle.
 */
static const struct confine_rule parent_rules[] = {
    REFUSE_IF(prctl, EALREADY, EQ32(0, CONFINE_MARK)),
/* other processes */
#ifndef CONFINE_SANITIZED
    REFUSE(ptrace, EPERM),
    REFUSE(personality, EPERM),
#endif
    REFUSE(process_vm_readv, EPERM),
    REFUSE(process_vm_writev, EPERM),
    REFUSE(process_madvise, EPERM),
    REFUSE(process_mrelease, EPERM),
    REFUSE(pidfd_getfd, EPERM),
    REFUSE(kcmp, EPERM),
    REFUSE(migrate_pages, EPERM),
    REFUSE(move_pages, EPERM),
    /* the kernel */
    REFUSE(init_module, EPERM),
    REFUSE(finit_module, EPERM),
    REFUSE(delete_module, EPERM),
    REFUSE(kexec_load, EPERM),
#ifdef __NR_kexec_file_load
    REFUSE(kexec_file_load, EPERM),
#endif
    REFUSE(bpf, EPERM),
    REFUSE(perf_event_open, EPERM),
    REFUSE(userfaultfd, EPERM),
    REFUSE(io_uring_setup, EPERM),
    REFUSE(io_uring_enter, EPERM),
    REFUSE(io_uring_register, EPERM),
    REFUSE(fanotify_init, EPERM),
    REFUSE(lookup_dcookie, EPERM),
    REFUSE(syslog, EPERM),
    REFUSE(reboot, EPERM),
    REFUSE(acct, EPERM),
    REFUSE(swapon, EPERM),
    REFUSE(swapoff, EPERM),
    REFUSE(quotactl, EPERM),
    REFUSE(quotactl_fd, EPERM),
    REFUSE(vhangup, EPERM),
#ifdef __NR_iopl
    REFUSE(iopl, EPERM),
    REFUSE(ioperm, EPERM),
    REFUSE(modify_ldt, EPERM),
#endif
    /* keys, clocks, names */
    REFUSE(add_key, EPERM),
    REFUSE(request_key, EPERM),
    REFUSE(keyctl, EPERM),
    REFUSE(clock_settime, EPERM),
    REFUSE(clock_adjtime, EPERM),
    REFUSE(adjtimex, EPERM),
    REFUSE(settimeofday, EPERM),
    REFUSE(sethostname, EPERM),
    REFUSE(setdomainname, EPERM),
    /* files by another way than their names; devices; code that is in no file */
    REFUSE(open_by_handle_at, EPERM),
    REFUSE(name_to_handle_at, EPERM),
    REFUSE(mknodat, EPERM),
#ifdef __NR_mknod
    REFUSE(mknod, EPERM),
#endif
    REFUSE(memfd_create, EPERM),
#ifdef __NR_memfd_secret
    REFUSE(memfd_secret, EPERM),
#endif
    /* The mounts that confine_root.c makes need none of these. */
    REFUSE(fsopen, EPERM),
    REFUSE(fspick, EPERM),
    REFUSE(fsconfig, EPERM),
    REFUSE(fsmount, EPERM),
    REFUSE(setns, EPERM),
    /* network: the listening socket was made before; connecting is for egressd, which inherits this
     */
    ALLOW_IF(socket, EQ(0, AF_UNIX)),
    ALLOW_IF(socket, EQ(0, AF_INET), EQ(1, NEW_TCP), EQ(2, 0)),
    ALLOW_IF(socket, EQ(0, AF_INET6), EQ(1, NEW_TCP), EQ(2, 0)),
    ALLOW_IF(socket, EQ(0, AF_INET), EQ(1, NEW_UDP), EQ(2, 0)),
    ALLOW_IF(socket, EQ(0, AF_INET6), EQ(1, NEW_UDP), EQ(2, 0)),
    ALLOW_IF(socket, EQ(0, AF_NETLINK), EQ(1, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC),
	EQ(2, NETLINK_ROUTE)),
    REFUSE(socket, EPERM),
    /* terminals: typing into the operator's shell */
    REFUSE_IF(ioctl, EPERM, EQ32(1, TIOCSTI)),
    REFUSE_IF(ioctl, EPERM, EQ32(1, TIOCLINUX)),
    /* Its flags are in memory, where a filter cannot look; libc then uses clone(2). */
    REFUSE(clone3, ENOSYS),
};
const struct confine_group confine_group_parent =
    GROUP("parent", "what the parent and its programs never need", parent_rules);

static const struct confine_rule parent_root_rules[] = {
    REFUSE_IF(clone, EPERM, SOME32(0, CLONE_NEWUSER)),
    REFUSE_IF(unshare, EPERM, SOME32(0, CLONE_NEWUSER)),
};
const struct confine_group confine_group_parent_root =
    GROUP("parent as root", "only who is not root needs a user namespace", parent_root_rules);

/*
 * A client of the API, after it has read its settings: beside all that the parent does without, it
 * starts nothing, mounts nothing, listens nowhere and signals nobody. These rows come first, so
 * that its sockets are allowed.
 */
static const struct confine_rule client_rules[] = {
    /* the server; names of hosts (glibc asks the kernel which addresses it has) */
    ALLOW_IF(socket, EQ(0, AF_INET)),
    ALLOW_IF(socket, EQ(0, AF_INET6)),
    ALLOW_IF(socket, EQ(0, AF_NETLINK)),
    REFUSE(listen, EPERM),
    REFUSE(accept, EPERM),
    REFUSE(accept4, EPERM),
    /* other programs; a thread of libcurl looks up names */
    REFUSE(execve, EPERM),
    REFUSE(execveat, EPERM),
    ALLOW_IF(clone, SOME32(0, CLONE_THREAD)),
    REFUSE(clone, EPERM),
#ifdef __NR_fork
    REFUSE(fork, EPERM),
    REFUSE(vfork, EPERM),
#endif
    REFUSE(kill, EPERM),
    REFUSE(tkill, EPERM),
    REFUSE(rt_sigqueueinfo, EPERM),
    REFUSE(rt_tgsigqueueinfo, EPERM),
    REFUSE(pidfd_open, EPERM),
    REFUSE(pidfd_send_signal, EPERM),
    /* what is where */
    REFUSE(mount, EPERM),
    REFUSE(umount2, EPERM),
    REFUSE(move_mount, EPERM),
    REFUSE(open_tree, EPERM),
    REFUSE(mount_setattr, EPERM),
    REFUSE(pivot_root, EPERM),
    REFUSE(chroot, EPERM),
    REFUSE(unshare, EPERM),
    /* who it is */
    REFUSE(capset, EPERM),
    REFUSE(setuid, EPERM),
    REFUSE(setresuid, EPERM),
    REFUSE(setgid, EPERM),
    REFUSE(setresgid, EPERM),
    REFUSE(setgroups, EPERM),
};
const struct confine_group confine_group_client =
    GROUP("client", "what a client of the API never needs either", client_rules);
