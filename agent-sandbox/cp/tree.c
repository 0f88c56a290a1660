/* A tree of files that was just made here: moved to its place, or removed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "agent-sandbox/cp/cp.h"

#define HERE (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

typedef int each_name(int dir, const char *name, void *arg);

/* Calls each for what is in the folder name of dir; -1 with errno at the first that fails. */
static int
for_each(int dir, const char *name, each_name *each, void *arg)
{
	int fd = openat(dir, name, HERE), r = 0, saved;
	DIR *d = fd != -1 ? fdopendir(fd) : NULL;
	struct dirent *e;

	if (d == NULL) {
		if (fd != -1)
			close(fd);
		return -1;
	}
	while (r == 0 && (e = readdir(d)) != NULL)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			r = each(dirfd(d), e->d_name, arg);
	saved = errno;
	closedir(d);
	errno = saved;
	return r;
}

/* Removes what is in the folder fd, up to the first folder that is not empty: *next, opened. */
static int
empty(int fd, int *next)
{
	DIR *d = fdopendir(fd);
	struct dirent *e;
	int r = 0;

	*next = -1;
	if (d == NULL) {
		close(fd);
		return -1;
	}
	while (r == 0 && *next == -1 && (errno = 0, e = readdir(d)) != NULL) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
		    unlinkat(fd, e->d_name, 0) == 0 ||
		    ((errno == EISDIR || errno == EPERM) &&
			unlinkat(fd, e->d_name, AT_REMOVEDIR) == 0))
			continue;
		if (errno != ENOTEMPTY && errno != EEXIST)
			r = -1;
		else if ((*next = openat(fd, e->d_name, HERE)) == -1)
			r = -1;
	}
	if (r == 0 && *next == -1 && errno == 0)
		*next = openat(fd, "..", HERE), r = 1;
	closedir(d);
	return r;
}

/*
 * Goes down to what is empty and up again, with one folder open at a time: a tree out of an archive
 * may be deeper than a process may have files open.
 */
int
tree_remove(int dir, const char *name)
{
	int fd, next, depth = 1, r;

	if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
		return 0;
	if ((errno != EISDIR && errno != EPERM) || (fd = openat(dir, name, HERE)) == -1)
		return -1;
	while (depth > 0) {
		if ((r = empty(fd, &next)) == -1)
			return -1;
		depth += r == 1 ? -1 : 1;
		fd = next;
	}
	close(fd);
	return unlinkat(dir, name, AT_REMOVEDIR);
}

static int
kind_of(int dir, const char *name, mode_t *mode)
{
	struct stat st;

	*mode = 0;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		*mode = st.st_mode & S_IFMT;
	else if (errno != ENOENT)
		return -1;
	return 0;
}

/* The folder that the one in hand is merged into. */
struct into {
	int dir;
	int look; /* only find out whether it can be done */
};

static int merge(int from_dir, const char *from, int to_dir, const char *to, int look);

static int
merge_each(int dir, const char *name, void *arg)
{
	struct into *into = arg;

	return merge(dir, name, into->dir, name, into->look);
}

static int
merge(int from_dir, const char *from, int to_dir, const char *to, int look)
{
	struct into into = {-1, look};
	mode_t here, there;
	int r;

	if (kind_of(from_dir, from, &here) == -1 || kind_of(to_dir, to, &there) == -1)
		return -1;
	if (there != 0 && S_ISDIR(here) != S_ISDIR(there)) {
		errno = S_ISDIR(there) ? EISDIR : ENOTDIR;
		return -1;
	}
	if (there == 0 || !S_ISDIR(there))
		return look ? 0 : renameat(from_dir, from, to_dir, to);
	if ((into.dir = openat(to_dir, to, HERE)) == -1)
		return -1;
	r = for_each(from_dir, from, merge_each, &into);
	close(into.dir);
	if (r == 0 && !look)
		r = unlinkat(from_dir, from, AT_REMOVEDIR);
	return r;
}

int
tree_place(int dir, const char *from, const char *to, int replace)
{
	if (!replace)
		return renameat2(dir, from, dir, to, RENAME_NOREPLACE);
	if (merge(dir, from, dir, to, 1) == -1)
		return -1;
	return merge(dir, from, dir, to, 0);
}
