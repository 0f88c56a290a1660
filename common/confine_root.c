/*
 * The root directory of a confined program: a mount namespace of its own in which one directory is
 * all there is, and the old tree is unmounted, so that no way back exists, as there would be from a
 * mere chroot(2).
 */
#include "common/confine_rules.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/log.h"

#define SOCKET_NAME "docker.sock"
#define EMPTY_OPTIONS "size=64k,nr_inodes=16,mode=0755"

static int
write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t n;

	if (fd == -1)
		return -1;
	n = write(fd, text, strlen(text));
	close(fd);
	return n == (ssize_t)strlen(text) ? 0 : -1;
}

/* One uid and gid, our own, are mapped; setgroups(2) has to be given up for that. */
static int
enter_user_namespace(void)
{
	uid_t uid = geteuid();
	gid_t gid = getegid();
	char map[64];

	/* The files below belong to whoever may trace us; drop_privileges() of confine.c ends that
	 * for good. */
	if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == -1 || unshare(CLONE_NEWUSER | CLONE_NEWNS) == -1)
		return -1;
	if (write_file("/proc/self/setgroups", "deny") == -1 && errno != ENOENT)
		return -1;
	snprintf(map, sizeof(map), "%u %u 1\n", (unsigned)uid, (unsigned)uid);
	if (write_file("/proc/self/uid_map", map) == -1)
		return -1;
	snprintf(map, sizeof(map), "%u %u 1\n", (unsigned)gid, (unsigned)gid);
	return write_file("/proc/self/gid_map", map);
}

/*
 * A copy of the mount of one socket, attached nowhere: it is taken before anything is mounted over
 * the directory that the socket lies in.
 */
static int
socket_mount(const char *path)
{
	struct stat st;
	int fd = open(path, O_PATH | O_CLOEXEC), tree;

	if (fd == -1 || fstat(fd, &st) == -1)
		fatal("confinement: %s", path);
	if (!S_ISSOCK(st.st_mode))
		fatalx("confinement: %s is not a socket", path);
	tree = open_tree(fd, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	close(fd);
	return tree;
}

/* Any directory will do to mount something over, since only this process sees it. */
static const char *
mount_point(void)
{
	static const char *const dirs[] = {"/tmp", "/run", "/var", "/etc", "/proc", "/dev"};
	struct stat st;
	size_t i;

	for (i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++)
		if (lstat(dirs[i], &st) == 0 && S_ISDIR(st.st_mode))
			return dirs[i];
	errno = ENOENT;
	return NULL;
}

static int
restrict_mount(uint64_t flags, unsigned recursive)
{
	struct mount_attr attr = {.attr_set = flags};

	return mount_setattr(AT_FDCWD, ".", recursive, &attr, sizeof(attr));
}

static int
put_socket(int tree)
{
	int fd = open(SOCKET_NAME, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd == -1)
		return -1;
	close(fd);
	return move_mount(tree, "", AT_FDCWD, SOCKET_NAME, MOVE_MOUNT_F_EMPTY_PATH);
}

/*
 * Leaves the working directory in a new, empty, read-only file system, or one that holds nothing
 * but the socket.
 */
static int
make_empty(const char *socket)
{
	const uint64_t flags =
	    MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
	const char *dir = mount_point();
	int tree = -1, saved;

	if (dir == NULL || (socket != NULL && (tree = socket_mount(socket)) == -1))
		return -1;
	if (mount("none", dir, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, EMPTY_OPTIONS) == -1)
		return -1;
	if (chdir(dir) == -1 || (tree != -1 && put_socket(tree) == -1) ||
	    restrict_mount(flags, 0) == -1) {
		/* The weaker form needs to see what is below. */
		saved = errno;
		if (chdir("/") == -1 || umount2(dir, MNT_DETACH) == -1)
			fatal("confinement: umount of %s", dir);
		errno = saved;
		return -1;
	}
	if (tree != -1)
		close(tree);
	return 0;
}

/* Leaves the working directory in the directory, mounted on itself. */
static int
make_dir(const char *dir)
{
	if (mount(dir, dir, NULL, MS_BIND | MS_REC, NULL) == -1 || chdir(dir) == -1)
		return -1;
	return restrict_mount(
	    MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, AT_RECURSIVE);
}

/* Makes the working directory the root; pivot_root(2) puts the old one on top of it, from where it
 * is unmounted. */
static int
become_root(void)
{
	if (syscall(SYS_pivot_root, ".", ".") == -1 || umount2(".", MNT_DETACH) == -1)
		return -1;
	return chdir("/");
}

/* Where a new namespace is not to be had: at least chroot(2), to what the program must reach. */
static int
enter_weaker(const struct confine *confine, const struct confine_ids *ids)
{
	char dir[1024];
	size_t len = strlen(ids->path);
	size_t name = sizeof("/" SOCKET_NAME) - 1;

	confine_weaker(ids, "a root directory in a mount namespace of its own");
	if (confine->root == ROOT_EMPTY || len == 0 || len >= sizeof(dir))
		return 1;
	memcpy(dir, ids->path, len + 1);
	if (confine->root == ROOT_SOCKET) {
		if (len <= name || strcmp(dir + len - name, "/" SOCKET_NAME) != 0)
			fatalx("confinement: %s is not called " SOCKET_NAME, dir);
		dir[len - name] = '\0';
	}
	if (chroot(dir) == -1 || chdir("/") == -1)
		fatal("confinement: chroot to %s", dir);
	return 1;
}

int
confine_root_enter(const struct confine *confine, const struct confine_ids *ids)
{
	const char *socket =
	    confine->root == ROOT_SOCKET && ids->path[0] != '\0' ? ids->path : NULL;
	int result;

	if (confine->root == ROOT_KEEP)
		return 0;
	if (confine->root == ROOT_DIR && ids->path[0] != '/')
		fatalx("confinement: root directory \"%s\" is not an absolute path", ids->path);
	if ((ids->as_root ? unshare(CLONE_NEWNS) : enter_user_namespace()) == -1)
		return enter_weaker(confine, ids);
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == -1)
		return enter_weaker(confine, ids);
	result = confine->root == ROOT_DIR ? make_dir(ids->path) : make_empty(socket);
	if (result == -1)
		return enter_weaker(confine, ids);
	if (become_root() == -1) {
		confine_weaker(ids, "pivot_root");
		if (chroot(".") == -1 || chdir("/") == -1)
			fatal("confinement: chroot");
		return 1;
	}
	return 0;
}
