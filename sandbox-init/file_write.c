/*
 * WRITE: into a file that has no name yet (O_TMPFILE; a hidden name where the file system has no
 * such thing), which takes the place of the old one when it is whole.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-init/channel.h"
#include "sandbox-init/file.h"
#include "sandbox-init/mem.h"
#include "sandbox-init/request.h"
#include "sandbox-init/resolve.h"
#include "sandbox-init/temp.h"

struct writing {
	int dir, fd;
	int named; /* temp stands in dir */
	int64_t max, taken;
	mode_t mode;
	char temp[TEMP_NAME_MAX];
	char *path;       /* as asked, for messages */
	const char *name; /* its last component */
};

static void
writing_free(struct channel *ch)
{
	struct writing *w = ch->state;

	if (w->named)
		unlinkat(w->dir, w->temp, 0);
	temp_forget(w->temp);
	close(w->fd);
	close(w->dir);
	free(w->path);
	free(w);
	ch->ops = NULL;
}

static void
fail(struct channel *ch, int error)
{
	char *path = strdup(((struct writing *)ch->state)->path);

	writing_free(ch);
	request_fail(ch, path ? path : "file", error);
	free(path);
}

static void
on_close(struct channel *ch)
{
	writing_free(ch);
	channel_end(ch, 409, 0, "called off");
}

static void
on_data(struct channel *ch, const uint8_t *data, size_t len)
{
	struct writing *w = ch->state;
	ssize_t n;

	if (w->max >= 0 && w->taken + (int64_t)len > w->max) {
		writing_free(ch);
		channel_end(ch, 413, 0, "file is too large");
		return;
	}
	w->taken += (int64_t)len;
	channel_consumed(ch, len);
	for (; len > 0; data += n, len -= (size_t)n) {
		n = write(w->fd, data, len);
		if (n < 0 && errno == EINTR)
			n = 0;
		if (n < 0) {
			fail(ch, errno);
			return;
		}
	}
}

/* Gives the file its hidden name, then the one asked for. */
static int
put_in_place(struct writing *w)
{
	char self[64];

	if (fchmod(w->fd, w->mode) < 0)
		return -1;
	if (!w->named) {
		snprintf(self, sizeof(self), "/proc/self/fd/%d", w->fd);
		if (linkat(AT_FDCWD, self, w->dir, w->temp, AT_SYMLINK_FOLLOW) < 0)
			return -1;
		w->named = 1;
	}
	if (renameat(w->dir, w->temp, w->dir, w->name) < 0)
		return -1;
	w->named = 0;
	return 0;
}

static void
on_data_end(struct channel *ch, int64_t bytes)
{
	struct writing *w = ch->state;
	int64_t taken = w->taken;
	struct stat st;

	if (bytes != taken) {
		writing_free(ch);
		channel_end(ch, 400, 0, "the data ended early");
		return;
	}
	if (put_in_place(w) < 0 || fstat(w->fd, &st) < 0) {
		fail(ch, errno);
		return;
	}
	file_meta(ch, &st, 0, st.st_size);
	writing_free(ch);
	channel_end(ch, 200, taken, "%s", "");
}

static const struct channel_ops write_ops = {.data = on_data,
    .data_end = on_data_end,
    .kill = on_close,
    .close = on_close,
    .drop = writing_free};

int
file_is_write(const struct channel *ch)
{
	return ch->ops == &write_ops;
}

static int
open_temp(struct writing *w)
{
	temp_name(w->temp);
	/* "." of a folder needs search permission, which creating a file in it needs anyway. */
	w->fd = openat(w->dir, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
	if (w->fd >= 0)
		return 0;
	if (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT && errno != EINVAL)
		return -1;
	w->fd = openat(w->dir, w->temp, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0600);
	w->named = w->fd >= 0;
	return w->fd < 0 ? -1 : 0;
}

void
file_write_open(struct channel *ch, const struct request *req)
{
	struct writing *w;
	struct stat st;
	const char *name;
	int dir = resolve_parent(req->path, request_resolve_flags(req), &name);

	if (dir < 0) {
		request_fail(ch, req->path, errno == ENOTEMPTY ? EISDIR : errno);
		return;
	}
	if (strcmp(name, "") == 0 || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
		close(dir);
		request_fail(ch, req->path, EINVAL);
		return;
	}
	w = mem_new(sizeof(*w));
	ch->state = w;
	w->dir = dir;
	w->fd = -1;
	w->max = req->f.max;
	w->mode = req->f.mode & 07777;
	w->path = mem_new(strlen(req->path) + 1);
	strcpy(w->path, req->path);
	w->name = strrchr(w->path, '/') + 1;
	if (w->max >= 0 && req->f.size > w->max) {
		writing_free(ch);
		channel_end(ch, 413, 0, "file is too large");
		return;
	}
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode)) {
		fail(ch, EISDIR);
		return;
	}
	if (open_temp(w) < 0) {
		fail(ch, errno);
		return;
	}
	ch->ops = &write_ops;
	channel_started(ch);
}
