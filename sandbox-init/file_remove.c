/* REMOVE: takes a file away that is still the one that was written, and nothing else. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-init/channel.h"
#include "sandbox-init/file.h"
#include "sandbox-init/request.h"
#include "sandbox-init/resolve.h"

/* 0, or the errno of the reason why not. A change between the look and the removal is one that the
 * same user makes to files of its own. */
static int
remove_same(int dir, const char *name, const struct g_file *f)
{
	struct stat st;

	if (strcmp(name, "") == 0 || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return EINVAL;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno;
	if (S_ISDIR(st.st_mode))
		return EISDIR;
	if (!S_ISREG(st.st_mode))
		return ENXIO;
	if (st.st_size != f->size || file_mtime(&st) != f->first)
		return ESTALE;
	return unlinkat(dir, name, 0) < 0 ? errno : 0;
}

void
file_remove(struct channel *ch, const struct request *req)
{
	const char *name;
	int error, dir = resolve_parent(req->path, RESOLVE_WORKSPACE, &name);

	if (dir < 0) {
		request_fail(ch, req->path, errno == ENOTEMPTY ? EISDIR : errno);
		return;
	}
	error = remove_same(dir, name, &req->f);
	close(dir);
	if (error == ESTALE)
		channel_end(ch, 409, 0, "%.3000s: it was changed", req->path);
	else if (error != 0)
		request_fail(ch, req->path, error);
	else
		channel_end(ch, 200, 0, "%s", "");
}
