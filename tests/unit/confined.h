/* For tests of confinement: a place with a socket and a directory, and attempts in forked children
 * that confine themselves. */
#ifndef TESTS_UNIT_CONFINED_H
#define TESTS_UNIT_CONFINED_H

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

static inline int
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

static inline int
group_teardown(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}

static inline struct confine_ids
our_ids(const char *path)
{
	int root = geteuid() == 0;

	return (struct confine_ids){.uid = root ? UID : geteuid(),
	    .gid = root ? GID : getegid(),
	    .extra_gid = (gid_t)-1,
	    .path = path,
	    .as_root = root};
}

#define FILES "stdio rpath wpath cpath unix"

struct attempt {
	struct confine confine;
	struct confine_ids ids;
	int (*fn)(void);
	int unprivileged; /* as if a user who is not root had started it */
};

static inline void
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

static inline void
must(int ok, const char *what)
{
	if (!ok)
		fatal("%s", what);
}

static inline int
try_connect(void)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX, .sun_path = "/docker.sock"};
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	return s == -1 ? -1 : connect(s, (struct sockaddr *)&sun, sizeof(sun));
}

static inline int
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

/* What the kernel says of a confined process, read from outside. */
static inline void
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

static inline void
assert_has(const char *text, const char *line)
{
	if (strstr(text, line) == NULL)
		fail_msg("no \"%s\" in:\n%s", line, text);
}

#endif
