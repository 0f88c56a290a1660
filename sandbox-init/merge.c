/*
 * Moves an unpacked tree to its place by rename, so that the target changes only when all is there.
 * Folders that exist on both sides become one; everything else replaces what had its name.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-init/unpack.h"

#define HERE (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

static int
is_folder(int dir, const char *name)
{
	struct stat st;

	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

/* A file cannot take the place of a folder: found out before anything is moved. */
static int
check_one(int from, int to, const char *name)
{
	if (is_folder(from, name) || !is_folder(to, name))
		return 0;
	errno = EISDIR;
	return -1;
}

static int
move_one(int from, int to, const char *name)
{
	if (is_folder(from, name) && !is_folder(to, name) && unlinkat(to, name, 0) < 0 &&
	    errno != ENOENT)
		return -1;
	return renameat(from, name, to, name);
}

static int
merge_level(struct unpack *u, int from, int to, int (*one)(int, int, const char *))
{
	int sub_from, sub_to, r = 0, fd = openat(from, ".", HERE);
	size_t len = strlen(u->name);
	struct dirent *e;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (d == NULL)
		return unpack_errno(u, errno);
	while (r == 0 && (e = readdir(d)) != NULL) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		snprintf(u->name + len, sizeof(u->name) - len, "%s%s", len ? "/" : "", e->d_name);
		if (!is_folder(from, e->d_name) || !is_folder(to, e->d_name)) {
			r = one(from, to, e->d_name) < 0 ? unpack_errno(u, errno) : 0;
			continue;
		}
		sub_from = openat(from, e->d_name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		sub_to = openat(to, e->d_name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		r = sub_from < 0 || sub_to < 0 ? unpack_errno(u, errno)
					       : merge_level(u, sub_from, sub_to, one);
		if (sub_from >= 0)
			close(sub_from);
		if (sub_to >= 0)
			close(sub_to);
	}
	closedir(d);
	if (r == 0)
		u->name[len] = '\0';
	return r;
}

int
merge_into(struct unpack *u, int from, int to)
{
	u->name[0] = '\0';
	if (merge_level(u, from, to, check_one) < 0)
		return -1;
	u->name[0] = '\0';
	return merge_level(u, from, to, move_one);
}
