/*
 * Path resolution. openat2(2) does it in one step; where it is missing, or a link names its target
 * from the top, each component is opened with O_NOFOLLOW and links are followed here, so that none
 * leads out of the root unseen.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox-init/resolve.h"

#define LINKS_MAX 40
#define WORKSPACE "/workspace"

struct walk {
	int root, at; /* descriptors; at may equal root */
	const char *root_path;
	int flags;
	int links;
	char rest[2 * PATH_MAX]; /* still to go: "" or from a slash on */
	char done[PATH_MAX];     /* from the root to at, without links */
};

static int
sys_openat2(int dir, const char *path, uint64_t oflags, uint64_t how_resolve)
{
	struct open_how how = {.flags = oflags | O_CLOEXEC, .resolve = how_resolve};

	return (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
}

static void
walk_to(struct walk *w, int fd)
{
	if (w->at != w->root)
		close(w->at);
	w->at = fd;
}

/* Back to the root, to go down again along done without its last component. */
static int
walk_up(struct walk *w)
{
	char again[2 * PATH_MAX], *slash = strrchr(w->done, '/');

	if (slash == NULL) {
		/* ".." of the real root is the root itself. */
		errno = EXDEV;
		return strcmp(w->root_path, "/") == 0 ? 0 : -1;
	}
	*slash = '\0';
	if ((size_t)snprintf(again, sizeof(again), "%s%s", w->done, w->rest) >= sizeof(again)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(w->rest, again, sizeof(again));
	w->done[0] = '\0';
	walk_to(w, w->root);
	return 0;
}

static int
walk_link(struct walk *w, int link)
{
	char target[PATH_MAX], again[2 * PATH_MAX];
	const char *t = target;
	size_t root_len = strlen(w->root_path);
	ssize_t n = readlinkat(link, "", target, sizeof(target) - 1);

	if (n < 0)
		return -1;
	target[n] = '\0';
	if (++w->links > LINKS_MAX) {
		errno = ELOOP;
		return -1;
	}
	if (target[0] == '/') {
		if (root_len > 1 && (strncmp(target, w->root_path, root_len) != 0 ||
					(target[root_len] != '/' && target[root_len] != '\0'))) {
			errno = EXDEV;
			return -1;
		}
		t = target + (root_len > 1 ? root_len : 0);
		w->done[0] = '\0';
		walk_to(w, w->root);
	}
	if ((size_t)snprintf(again, sizeof(again), "%s%s", t, w->rest) >= sizeof(again)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(w->rest, again, sizeof(again));
	return 0;
}

/* One component. want_last: the end may be any kind of file; else everything must be a folder. */
static int
walk_step(struct walk *w, const char *name, int last)
{
	struct stat st;
	int fd, r;

	if (strcmp(name, "..") == 0)
		return walk_up(w);
	fd = openat(w->at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT && (w->flags & RESOLVE_PARENTS)) {
		if (mkdirat(w->at, name, 0755) < 0 && errno != EEXIST)
			return -1;
		fd = openat(w->at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	}
	if (fd < 0 || fstat(fd, &st) < 0) {
		if (fd >= 0)
			close(fd);
		return -1;
	}
	if (S_ISLNK(st.st_mode)) {
		r = walk_link(w, fd);
		close(fd);
		return r;
	}
	if (!last && !S_ISDIR(st.st_mode)) {
		close(fd);
		errno = ENOTDIR;
		return -1;
	}
	if (strlen(w->done) + strlen(name) + 2 > sizeof(w->done)) {
		close(fd);
		errno = ENAMETOOLONG;
		return -1;
	}
	strcat(strcat(w->done, "/"), name);
	walk_to(w, fd);
	return 0;
}

static int
walk(int root, const char *root_path, const char *rel, int flags)
{
	struct walk w = {.root = root, .at = root, .root_path = root_path, .flags = flags};
	char name[NAME_MAX + 1], *p;
	size_t n;
	int last;

	if (strlen(rel) >= PATH_MAX) {
		errno = ENAMETOOLONG;
		return -1;
	}
	strcpy(w.rest, rel);
	for (;;) {
		p = w.rest + strspn(w.rest, "/");
		if (*p == '\0')
			break;
		n = strcspn(p, "/");
		if (n > NAME_MAX) {
			errno = ENAMETOOLONG;
			goto fail;
		}
		memcpy(name, p, n);
		name[n] = '\0';
		last = p[n] == '\0';
		memmove(w.rest, p + n, strlen(p + n) + 1);
		if (strcmp(name, ".") != 0 && walk_step(&w, name, last) < 0)
			goto fail;
	}
	return w.at == root ? fcntl(root, F_DUPFD_CLOEXEC, 3) : w.at;
fail:
	n = (size_t)errno;
	walk_to(&w, root);
	errno = (int)n;
	return -1;
}

/* What stands behind /workspace in path, or NULL with errno when it lies elsewhere. */
static const char *
below_workspace(const char *path)
{
	size_t n = strlen(WORKSPACE);

	if (strncmp(path, WORKSPACE, n) != 0 || (path[n] != '/' && path[n] != '\0')) {
		errno = EXDEV;
		return NULL;
	}
	path += n;
	return path + strspn(path, "/");
}

int
resolve(const char *path, int flags)
{
	const char *root_path = flags & RESOLVE_WORKSPACE ? WORKSPACE : "/", *rel = path;
	uint64_t how = RESOLVE_NO_MAGICLINKS;
	int root, fd, error;

	if (flags & RESOLVE_WORKSPACE) {
		how |= RESOLVE_BENEATH;
		if ((rel = below_workspace(path)) == NULL)
			return -1;
	}
	root = open(root_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return -1;
	fd = sys_openat2(root, *rel ? rel : ".", O_PATH, how);
	/* EXDEV: perhaps a link that names a place inside from the top, which openat2 does not
	 * take. */
	if (fd < 0 &&
	    (errno == ENOSYS || errno == EPERM || (errno == EXDEV && (flags & RESOLVE_WORKSPACE)) ||
		(errno == ENOENT && (flags & RESOLVE_PARENTS))))
		fd = walk(root, root_path, rel, flags);
	error = errno;
	close(root);
	errno = error;
	return fd;
}

int
resolve_parent(const char *path, int flags, const char **name)
{
	const char *rel = path, *slash;
	char *folder;
	int fd, error;

	if ((flags & RESOLVE_WORKSPACE) && (rel = below_workspace(path)) == NULL)
		return -1;
	if (rel[strspn(rel, "/")] == '\0') {
		errno = ENOTEMPTY;
		return -1;
	}
	slash = strrchr(path, '/');
	*name = slash + 1;
	if (strlen(*name) > NAME_MAX) {
		errno = ENAMETOOLONG;
		return -1;
	}
	folder = strndup(path, slash == path ? 1 : (size_t)(slash - path));
	if (folder == NULL)
		return -1;
	fd = resolve(folder, flags);
	error = errno;
	free(folder);
	errno = error;
	return fd;
}

int
resolve_reopen(int fd, int oflags)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, oflags | O_CLOEXEC);
}
