/* An image may bring a /workspace of its own; if the sandbox user does not own it, a snapshot of it
 * could not be whole. */
#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-init/loop.h"
#include "sandbox-init/workspace.h"

#define DEPTH_MAX 200       /* a descriptor and a stack frame each */
#define PATIENCE_US 2000000 /* the server waits for our answer; so much is no image's */

static int64_t deadline;

static int
look(int parent, const char *name, int depth)
{
	struct dirent *e;
	struct stat st;
	int fd, foreign;
	DIR *d;

	if (loop_now() > deadline || fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (st.st_uid != getuid())
		return 1;
	if (!S_ISDIR(st.st_mode) || depth == DEPTH_MAX)
		return 0;
	fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	d = fd < 0 ? NULL : fdopendir(fd);
	if (d == NULL) {
		if (fd >= 0)
			close(fd);
		return 0;
	}
	foreign = 0;
	while (!foreign && (e = readdir(d)) != NULL)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			foreign = look(fd, e->d_name, depth + 1);
	closedir(d);
	return foreign;
}

int
workspace_is_foreign(const char *path)
{
	deadline = loop_now() + PATIENCE_US;
	return look(AT_FDCWD, path, 0);
}
