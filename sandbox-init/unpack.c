/*
 * Archive entries to disk. Each component is opened with O_NOFOLLOW, so that no entry can lead the
 * next one elsewhere; the last folder is remembered, since neighbours come one after the other.
 */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "sandbox-init/mem.h"
#include "sandbox-init/names.h"
#include "sandbox-init/request.h"
#include "sandbox-init/unpack.h"

int
unpack_fail(struct unpack *u, uint32_t status, const char *reason)
{
	if (u->status == 200) {
		u->status = status;
		snprintf(u->reason, sizeof(u->reason), "%s", reason);
	}
	return -1;
}

int
unpack_errno(struct unpack *u, int error)
{
	return unpack_fail(
	    u, request_status(error) == 404 ? 400 : request_status(error), request_reason(error));
}

/* One folder below dir; with create it is made when it is missing. Closes dir unless it is base. */
static int
step_down(int base, int dir, const char *part, int create)
{
	int fd, error;

	fd = openat(dir, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT && create && mkdirat(dir, part, 0755) == 0)
		fd = openat(dir, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	error = errno;
	if (dir != base)
		close(dir);
	errno = error;
	return fd;
}

static int
walk_down(int base, const char *name, int create)
{
	char part[NAME_MAX + 1];
	int dir = base;
	size_t n;

	for (; *name != '\0' && dir >= 0; name += n + (name[n] == '/')) {
		n = strcspn(name, "/");
		memcpy(part, name, n);
		part[n] = '\0';
		dir = step_down(base, dir, part, create);
	}
	return dir == base ? fcntl(base, F_DUPFD_CLOEXEC, 3) : dir;
}

int
unpack_open(int base, const char *name)
{
	return walk_down(base, name, 0);
}

static void
forget_cached(struct unpack *u)
{
	if (u->cached_fd >= 0)
		close(u->cached_fd);
	u->cached_fd = -1;
}

/* The folder that name lies in (made when missing); *last is the name within it. Not to be closed.
 */
static int
parent_of(struct unpack *u, const char *name, int create, const char **last)
{
	const char *slash = strrchr(name, '/');
	size_t n = slash ? (size_t)(slash - name) : 0;

	*last = slash ? slash + 1 : name;
	if (u->cached_fd >= 0 && strlen(u->cached) == n && strncmp(u->cached, name, n) == 0)
		return u->cached_fd;
	forget_cached(u);
	memcpy(u->cached, name, n);
	u->cached[n] = '\0';
	u->cached_fd = walk_down(u->base, u->cached, create);
	return u->cached_fd;
}

/* An archive may hold a name twice; the later one counts. */
static int
make_way(int dir, const char *last)
{
	struct stat st;

	if (fstatat(dir, last, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	return unlinkat(dir, last, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0);
}

static void
times_of(struct archive_entry *e, struct timespec ts[2])
{
	ts[0].tv_sec = 0;
	ts[0].tv_nsec = UTIME_OMIT;
	ts[1].tv_sec = archive_entry_mtime(e);
	ts[1].tv_nsec = archive_entry_mtime_is_set(e) ? archive_entry_mtime_nsec(e) : UTIME_OMIT;
}

static int
set_xattrs(struct unpack *u, int fd, struct archive_entry *e)
{
	const char *name;
	const void *value;
	size_t len;

	archive_entry_xattr_reset(e);
	while (archive_entry_xattr_next(e, &name, &value, &len) == ARCHIVE_OK) {
		if (name == NULL || strncmp(name, "user.", 5) != 0)
			continue;
		/* A file system without attributes: an archive is unpacked all the same, a snapshot
		 * is not whole. */
		if (fsetxattr(fd, name, value, len, 0) < 0 && (u->exact || errno != EOPNOTSUPP))
			return unpack_errno(u, errno);
	}
	return 0;
}

static int
write_all(int fd, const char *p, size_t len, off_t at)
{
	ssize_t n;

	for (; len > 0; p += n, len -= (size_t)n, at += n) {
		n = pwrite(fd, p, len, at);
		if (n < 0 && errno == EINTR)
			n = 0;
		if (n < 0)
			return -1;
	}
	return 0;
}

static int
write_data(struct unpack *u, int fd, struct archive *a, off_t size)
{
	const void *block;
	off_t end = 0;
	la_int64_t at;
	size_t len;
	int r;

	while ((r = archive_read_data_block(a, &block, &len, &at)) == ARCHIVE_OK) {
		if (write_all(fd, block, len, at) < 0)
			return unpack_errno(u, errno);
		end = at + (off_t)len;
	}
	if (r != ARCHIVE_EOF)
		return unpack_fail(u, 400, "the archive is damaged or incomplete");
	/* A hole at the end. */
	return end != size && ftruncate(fd, size) < 0 ? unpack_errno(u, errno) : 0;
}

/*
 * The file has its mode from the start where that is possible, since each later change is one more
 * write to the disk. Attributes can be set only while the owner may write.
 */
static int
put_regular(struct unpack *u, int dir, const char *last, struct archive *a, struct archive_entry *e)
{
	mode_t mode = archive_entry_perm(e) & 07777;
	mode_t first = archive_entry_xattr_count(e) > 0 ? 0600 : mode & 0777;
	struct timespec ts[2];
	int r, fd = openat(dir, last, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, first);

	if (fd < 0 && errno == EEXIST && make_way(dir, last) == 0)
		fd = openat(dir, last, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, first);
	if (fd < 0)
		return unpack_errno(u, errno);
	times_of(e, ts);
	r = write_data(u, fd, a, archive_entry_size(e));
	if (r == 0)
		r = set_xattrs(u, fd, e);
	if (r == 0 && ((first != mode && fchmod(fd, mode) < 0) || futimens(fd, ts) < 0))
		r = unpack_errno(u, errno);
	close(fd);
	return r;
}

static int
put_folder(struct unpack *u, int dir, const char *last, struct archive_entry *e)
{
	struct unpack_folder *f;
	int r = 0, fd = -1;

	if (u->nfolders == u->cap) {
		u->cap = u->cap ? u->cap * 2 : 64;
		u->folders = mem_resize(u->folders, u->cap * sizeof(*u->folders));
	}
	if (*last != '\0') {
		fd = openat(dir, last, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0 && errno != ENOENT && make_way(dir, last) < 0)
			return unpack_errno(u, errno);
		if (fd < 0 && mkdirat(dir, last, 0700) == 0)
			fd = openat(dir, last, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	} else {
		fd = openat(u->base, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	if (fd < 0)
		return unpack_errno(u, errno);
	r = set_xattrs(u, fd, e);
	close(fd);
	f = &u->folders[u->nfolders];
	f->name = strdup(u->name);
	f->mode = archive_entry_perm(e);
	f->mtime = archive_entry_mtime(e);
	f->mtime_nsec = archive_entry_mtime_nsec(e);
	f->has_mtime = archive_entry_mtime_is_set(e);
	f->order = u->nfolders++;
	return f->name == NULL ? unpack_errno(u, ENOMEM) : r;
}

static int
put_symlink(struct unpack *u, int dir, const char *last, struct archive_entry *e)
{
	const char *target = archive_entry_symlink(e);
	struct timespec ts[2];

	if (target == NULL)
		target = archive_entry_symlink_utf8(e);
	if (target == NULL || *target == '\0')
		return unpack_fail(u, 400, "link without a target");
	if (!u->exact && names_leads_out(u->depth, u->name, target))
		return unpack_fail(u, 400, "link that leads out of /workspace");
	times_of(e, ts);
	if (symlinkat(target, dir, last) < 0 || utimensat(dir, last, ts, AT_SYMLINK_NOFOLLOW) < 0)
		return unpack_errno(u, errno);
	return 0;
}

static int
put_hardlink(struct unpack *u, const char *to)
{
	char target[PATH_MAX], own[PATH_MAX];
	const char *why = names_clean(to, target, sizeof(target)), *last, *target_last;
	int from, dir, r;

	if (why != NULL || *target == '\0')
		return unpack_fail(u, 400, why ? why : "link to the root");
	dir = parent_of(u, target, 0, &target_last);
	from = dir < 0 ? -1 : fcntl(dir, F_DUPFD_CLOEXEC, 3);
	if (from < 0)
		return unpack_fail(u, 400, "link to what is not in the archive");
	strcpy(own, u->name);
	dir = parent_of(u, own, 1, &last);
	r = dir < 0 ? -1 : linkat(from, target_last, dir, last, 0);
	if (r < 0)
		r = errno == ENOENT ? unpack_fail(u, 400, "link to what is not in the archive")
				    : unpack_errno(u, errno);
	close(from);
	return r;
}

static int
put_fifo(struct unpack *u, int dir, const char *last, struct archive_entry *e)
{
	struct timespec ts[2];

	times_of(e, ts);
	if (mkfifoat(dir, last, 0600) < 0 || fchmodat(dir, last, archive_entry_perm(e), 0) < 0 ||
	    utimensat(dir, last, ts, AT_SYMLINK_NOFOLLOW) < 0)
		return unpack_errno(u, errno);
	return 0;
}

static int
put_entry(struct unpack *u, struct archive *a, struct archive_entry *e, const char *hardlink)
{
	const char *last;
	int dir = parent_of(u, u->name, 1, &last);

	if (dir < 0)
		return errno == ENOTDIR || errno == ELOOP
			   ? unpack_fail(u, 400, "goes through what is no directory")
			   : unpack_errno(u, errno);
	if (hardlink == NULL && archive_entry_filetype(e) == AE_IFDIR)
		return put_folder(u, dir, last, e);
	if (*last == '\0')
		return unpack_fail(u, 400, "not a valid name");
	if (hardlink == NULL && archive_entry_filetype(e) == AE_IFREG)
		return put_regular(u, dir, last, a, e);
	if (make_way(dir, last) < 0)
		return unpack_errno(u, errno);
	if (hardlink != NULL)
		return put_hardlink(u, hardlink);
	switch (archive_entry_filetype(e)) {
	case AE_IFLNK:
		return put_symlink(u, dir, last, e);
	case AE_IFIFO:
		return put_fifo(u, dir, last, e);
	default:
		return unpack_fail(u, 400, "devices and sockets are refused");
	}
}

/* Names are bytes here; those that came as Unicode and have no form in this locale are taken as
 * UTF-8. */
int
unpack_entry(struct unpack *u, struct archive *a, struct archive_entry *e)
{
	const char *name = archive_entry_pathname(e), *why, *hardlink = archive_entry_hardlink(e);

	if (name == NULL)
		name = archive_entry_pathname_utf8(e);
	if (hardlink == NULL)
		hardlink = archive_entry_hardlink_utf8(e);
	if (name == NULL)
		return unpack_fail(u, 400, "entry without a name");
	snprintf(u->name, sizeof(u->name), "%s", name);
	why = names_clean(name, u->name, sizeof(u->name));
	if (why != NULL) {
		snprintf(u->name, sizeof(u->name), "%s", name);
		return unpack_fail(u, 400, why);
	}
	return put_entry(u, a, e, hardlink);
}

/* What lies below another has a longer name and comes first. */
static int
deepest_first(const void *a, const void *b)
{
	const struct unpack_folder *p = a, *q = b;
	int r = strcmp(q->name, p->name);

	return r ? r : p->order < q->order ? -1 : 1;
}

int
unpack_folders(struct unpack *u, int base)
{
	struct unpack_folder *f;
	struct timespec ts[2];
	char self[64];
	int fd, r = 0;
	size_t i;

	if (u->nfolders > 1)
		qsort(u->folders, u->nfolders, sizeof(*u->folders), deepest_first);
	for (i = 0; i < u->nfolders && r == 0; i++) {
		f = &u->folders[i];
		if (*f->name == '\0' && !u->exact)
			continue;
		snprintf(u->name, sizeof(u->name), "%s", f->name);
		ts[0] = (struct timespec){.tv_nsec = UTIME_OMIT};
		ts[1] = (struct timespec){f->mtime, f->has_mtime ? f->mtime_nsec : UTIME_OMIT};
		fd = unpack_open(base, f->name);
		if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
			continue; /* a later entry took its place */
		snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
		if (fd < 0 || chmod(self, f->mode) < 0 || utimensat(AT_FDCWD, self, ts, 0) < 0)
			r = unpack_errno(u, errno);
		if (fd >= 0)
			close(fd);
	}
	return r;
}
