/* READ: looks at the file before opening it, so that a pipe or a device is refused and never waited
 * for. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "proto/data.h"
#include "sandbox-init/channel.h"
#include "sandbox-init/file.h"
#include "sandbox-init/mem.h"
#include "sandbox-init/request.h"
#include "sandbox-init/resolve.h"
#include "sandbox-init/stream.h"

struct reading {
	int fd;
	int64_t at, end, sent;
};

int
file_type(uint32_t mode)
{
	return S_ISREG(mode)   ? FILE_REGULAR
	       : S_ISDIR(mode) ? FILE_DIRECTORY
	       : S_ISLNK(mode) ? FILE_SYMLINK
			       : FILE_OTHER;
}

int64_t
file_mtime(const struct stat *st)
{
	int64_t ns;

	if (__builtin_mul_overflow((int64_t)st->st_mtim.tv_sec, 1000000000, &ns) ||
	    __builtin_add_overflow(ns, (int64_t)st->st_mtim.tv_nsec, &ns))
		return st->st_mtim.tv_sec < 0 ? INT64_MIN : INT64_MAX;
	return ns;
}

void
file_meta(struct channel *ch, const struct stat *st, int64_t first, int64_t length)
{
	struct g_meta m = {.size = st->st_size, .first = first, .length = length};

	m.mtime_ns = file_mtime(st);
	m.mode = st->st_mode & 07777;
	m.type = (uint8_t)file_type(st->st_mode);
	channel_meta(ch, &m);
}

void
file_open(struct channel *ch, uint8_t type, const uint8_t *data, size_t len)
{
	struct request r;

	if (request_parse(data, len, &r) < 0)
		channel_end(ch, 400, 0, "not a valid path");
	else if (type == G_READ)
		file_read_open(ch, &r);
	else if (type == G_WRITE)
		file_write_open(ch, &r);
	else if (type == G_REMOVE)
		file_remove(ch, &r);
	else
		file_list_open(ch, &r);
}

static void
reading_free(struct channel *ch)
{
	struct reading *r = ch->state;

	close(r->fd);
	free(r);
	ch->ops = NULL;
}

static void
on_close(struct channel *ch)
{
	int64_t sent = ((struct reading *)ch->state)->sent;

	reading_free(ch);
	channel_end(ch, 409, sent, "called off");
}

static int
on_pump(struct channel *ch)
{
	struct reading *r = ch->state;
	int64_t sent;
	size_t max = channel_allows(ch);
	ssize_t n;

	if (!stream_room())
		return 1;
	if (r->at < r->end) {
		if (max == 0)
			return 0;
		if ((int64_t)max > r->end - r->at)
			max = (size_t)(r->end - r->at);
		n = pread(r->fd, stream_reserve(), max, r->at);
		if (n < 0 && errno == EINTR)
			return 1;
		if (n <= 0) {
			sent = r->sent;
			reading_free(ch);
			channel_end(ch, 500, sent, "the file became shorter while it was read");
			return 0;
		}
		channel_put(ch, G_DATA, (size_t)n);
		r->at += n;
		r->sent += n;
		return 1;
	}
	sent = r->sent;
	reading_free(ch);
	channel_end(ch, 200, sent, "%s", "");
	return 0;
}

static const struct channel_ops read_ops = {
    .close = on_close, .kill = on_close, .drop = reading_free, .pump = on_pump};

/* 0 and an open regular file, or the errno of the reason why not. */
static int
open_regular(const struct request *req, int *fd, struct stat *st)
{
	int path_fd = resolve(req->path, request_resolve_flags(req) & ~RESOLVE_PARENTS), error = 0;

	if (path_fd < 0)
		return errno == ENOTDIR ? ENOENT : errno;
	if (fstat(path_fd, st) < 0)
		error = errno;
	else if (S_ISDIR(st->st_mode))
		error = EISDIR;
	else if (!S_ISREG(st->st_mode))
		error = ENODEV;
	/* O_NONBLOCK: a lease that another process holds must not stop us. */
	else if ((*fd = resolve_reopen(path_fd, O_RDONLY | O_NONBLOCK | O_NOCTTY)) < 0)
		error = errno;
	close(path_fd);
	return error;
}

/* Files that the kernel makes up as they are read: what they say of their size is not so. Asked of
 * the file system, since reading one may wait for what another process does. */
static int
hides_its_size(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 &&
	       (fs.f_type == PROC_SUPER_MAGIC || fs.f_type == SYSFS_MAGIC ||
		   fs.f_type == CGROUP_SUPER_MAGIC || fs.f_type == CGROUP2_SUPER_MAGIC);
}

void
file_read_open(struct channel *ch, const struct request *req)
{
	int64_t first = 0, length = 0;
	struct reading *r;
	struct stat st;
	uint32_t status;
	int fd = -1, error = open_regular(req, &fd, &st);

	if (error == ENODEV) {
		channel_end(ch, 400, 0, "%.3000s: not a regular file", req->path);
		return;
	}
	if (error != 0) {
		request_fail(ch, req->path, error);
		return;
	}
	if (hides_its_size(fd)) {
		close(fd);
		channel_end(ch, 400, 0, "%.3000s: its size is not known; read it with a command",
		    req->path);
		return;
	}
	status = request_range(&req->f, st.st_size, &first, &length);
	if (status != 200) {
		close(fd);
		channel_end(ch, status, st.st_size, "%.3000s: %s", req->path,
		    status == 416 ? "range lies outside the file" : "file is too large");
		return;
	}
	file_meta(ch, &st, first, length);
	r = mem_new(sizeof(*r));
	r->fd = fd;
	r->at = first;
	r->end = req->f.flags & G_FLAG_HEAD ? first : first + length;
	ch->ops = &read_ops;
	ch->state = r;
	on_pump(ch);
}
