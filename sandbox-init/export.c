/*
 * The worker that packs a tree as a pax tar. Everything is done relative to folder descriptors and
 * without following links. Sockets and devices are left out; what cannot be read is an error that
 * names it.
 */
#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "sandbox-init/links.h"
#include "sandbox-init/request.h"
#include "sandbox-init/temp.h"
#include "sandbox-init/worker.h"

#define STEP 65536
#define HOLE_STEP   \
	((size_t)64 \
	    << 30) /* address space only: libarchive skips these zeros without reading them */

struct packer {
	struct archive *out;
	struct links links;
	int exact;
	char path[PATH_MAX]; /* of the entry, "./a/b" */
	const char *zeros;
	size_t zeros_size;
	uint32_t status; /* 200 while all is well */
	char text[PATH_MAX + 128];
};

static int pack_folder(struct packer *, int fd, const struct stat *);

static int
fail(struct packer *p, uint32_t status, const char *reason)
{
	if (p->status == 200) {
		p->status = status;
		snprintf(p->text, sizeof(p->text), "%s", reason);
	}
	return -1;
}

static ssize_t
on_write(struct archive *a, void *arg, const void *buf, size_t len)
{
	ssize_t n;

	(void)arg;
	while ((n = write(WORKER_DATA, buf, len)) < 0 && errno == EINTR)
		;
	if (n < 0)
		archive_set_error(a, errno, "gone");
	return n;
}

static int
put_header(struct packer *p, struct archive_entry *e)
{
	int r = archive_write_header(p->out, e);

	if (r == ARCHIVE_OK || r == ARCHIVE_WARN)
		return 0;
	return fail(p, 500, archive_error_string(p->out));
}

static struct archive_entry *
new_entry(struct packer *p, const struct stat *st)
{
	struct archive_entry *e = archive_entry_new();

	if (e == NULL)
		_exit(70);
	archive_entry_copy_pathname(e, p->path);
	archive_entry_set_mode(e, st->st_mode);
	archive_entry_set_uid(e, getuid());
	archive_entry_set_gid(e, getgid());
	archive_entry_set_mtime(e, st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
	archive_entry_set_size(e, S_ISREG(st->st_mode) ? st->st_size : 0);
	return e;
}

static int
add_xattr(struct archive_entry *e, int fd, const char *name)
{
	ssize_t len = fgetxattr(fd, name, NULL, 0);
	char *value = len < 0 ? NULL : malloc((size_t)len + 1);

	if (value != NULL && (len = fgetxattr(fd, name, value, (size_t)len)) >= 0)
		archive_entry_xattr_add_entry(e, name, value, (size_t)len);
	free(value);
	return value == NULL || len < 0 ? -1 : 0;
}

/* Attributes of the user namespace only: the others are not the sandbox user's to set again. */
static int
add_xattrs(struct packer *p, struct archive_entry *e, int fd)
{
	ssize_t n = flistxattr(fd, NULL, 0);
	char *names, *name;
	int r = 0;

	if (n == 0 || (n < 0 && errno == EOPNOTSUPP))
		return 0;
	names = n < 0 ? NULL : malloc((size_t)n + 1);
	if (names == NULL || (n = flistxattr(fd, names, (size_t)n)) < 0)
		r = -1;
	for (name = names; r == 0 && name < names + n; name += strlen(name) + 1)
		if (strncmp(name, "user.", 5) == 0)
			r = add_xattr(e, fd, name);
	free(names);
	return r < 0 ? fail(p, 400, "its attributes cannot be read") : 0;
}

/* Tells libarchive where the data lie. A file without holes gets no list. */
static void
add_sparse(struct archive_entry *e, int fd, const struct stat *st)
{
	off_t data = 0, hole;

	if (st->st_size == 0 || (off_t)st->st_blocks * 512 >= st->st_size)
		return;
	while (data < st->st_size && (data = lseek(fd, data, SEEK_DATA)) >= 0) {
		hole = lseek(fd, data, SEEK_HOLE);
		if (hole < 0 || hole > st->st_size)
			hole = st->st_size;
		if (data == 0 && hole == st->st_size)
			return;
		archive_entry_sparse_add_entry(e, data, hole - data);
		data = hole;
	}
	if (archive_entry_sparse_count(e) == 0) /* nothing but a hole */
		archive_entry_sparse_add_entry(e, st->st_size, 0);
}

static int
pack_hole(struct packer *p, off_t len)
{
	la_ssize_t n;

	while (len > 0) {
		n = archive_write_data(
		    p->out, p->zeros, len < (off_t)p->zeros_size ? (size_t)len : p->zeros_size);
		if (n <= 0)
			return fail(p, 500, "cannot be written");
		len -= n;
	}
	return 0;
}

static int
pack_data(struct packer *p, int fd, off_t at, off_t end)
{
	static char buf[STEP];
	ssize_t n;

	while (at < end) {
		n = pread(fd, buf, end - at < STEP ? (size_t)(end - at) : STEP, at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return fail(p, 409, "changed while it was read");
		if (archive_write_data(p->out, buf, (size_t)n) != n)
			return fail(p, 500, "cannot be written");
		at += n;
	}
	return 0;
}

static int
pack_content(struct packer *p, struct archive_entry *e, int fd, const struct stat *st)
{
	la_int64_t at = 0, offset, len;

	if (archive_entry_sparse_reset(e) == 0)
		return pack_data(p, fd, 0, st->st_size);
	while (archive_entry_sparse_next(e, &offset, &len) == ARCHIVE_OK) {
		if (pack_hole(p, offset - at) < 0 || pack_data(p, fd, offset, offset + len) < 0)
			return -1;
		at = offset + len;
	}
	return pack_hole(p, st->st_size - at);
}

static int
pack_open_file(struct packer *p, struct archive_entry *e, int fd, const struct stat *st)
{
	add_sparse(e, fd, st);
	return put_header(p, e) < 0 ? -1 : pack_content(p, e, fd, st);
}

/* The mode as it was, where open_entry() had to change it. */
static void
give_back(int dir, const char *name, const struct stat *st, mode_t need)
{
	if (st->st_uid == getuid() && (st->st_mode & need) != need)
		(void)!fchmodat(dir, name, st->st_mode & 07777, 0);
}

#define GONE (-2)

/* Opens name for reading; one of our own that may not be read gets the permission for as long as it
 * takes. GONE, where others go on meanwhile: it was removed, or became another kind, since it was
 * looked at. */
static int
open_entry(
    struct packer *p, int dir, const char *name, const struct stat *st, int oflags, mode_t need)
{
	int fd, error;

	oflags |= O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
	if (p->exact && st->st_uid == getuid() && (st->st_mode & need) != need &&
	    fchmodat(dir, name, (st->st_mode | need) & 07777, 0) < 0)
		return fail(p, request_status(errno), request_reason(errno));
	fd = openat(dir, name, oflags);
	error = errno;
	if (p->exact && fd < 0)
		give_back(dir, name, st, need);
	if (!p->exact && fd < 0 && (error == ENOENT || error == ENOTDIR || error == ELOOP))
		return GONE;
	return fd >= 0 ? fd : fail(p, request_status(error), request_reason(error));
}

static int
pack_regular(struct packer *p, int dir, const char *name, const struct stat *st)
{
	struct archive_entry *e;
	int r, fd = open_entry(p, dir, name, st, 0, S_IRUSR);

	if (fd < 0)
		return fd == GONE ? 0 : -1;
	e = new_entry(p, st);
	r = add_xattrs(p, e, fd);
	if (p->exact)
		give_back(dir, name, st, S_IRUSR);
	if (r == 0)
		r = pack_open_file(p, e, fd, st);
	archive_entry_free(e);
	close(fd);
	return r;
}

static int
pack_other(struct packer *p, int dir, const char *name, const struct stat *st)
{
	struct archive_entry *e = new_entry(p, st);
	char target[PATH_MAX];
	ssize_t n;
	int r;

	if (S_ISLNK(st->st_mode)) {
		n = readlinkat(dir, name, target, sizeof(target) - 1);
		if (n < 0) {
			archive_entry_free(e);
			return fail(p, 409, "changed while it was read");
		}
		target[n] = '\0';
		archive_entry_copy_symlink(e, target);
	}
	r = put_header(p, e);
	archive_entry_free(e);
	return r;
}

static int
pack_link(struct packer *p, const struct stat *st, const char *first)
{
	struct archive_entry *e = new_entry(p, st);
	int r;

	archive_entry_set_size(e, 0);
	archive_entry_copy_hardlink(e, first);
	r = put_header(p, e);
	archive_entry_free(e);
	return r;
}

static int
pack_subfolder(struct packer *p, int dir, const char *name, const struct stat *st)
{
	mode_t need = S_IRUSR | S_IXUSR;
	int r, fd = open_entry(p, dir, name, st, O_DIRECTORY, need);

	if (fd < 0)
		return fd == GONE ? 0 : -1;
	r = pack_folder(p, fd, st);
	if (p->exact)
		give_back(dir, name, st, need);
	return r;
}

static int
pack_entry(struct packer *p, int dir, const char *name)
{
	struct stat st;
	const char *first;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT && !p->exact
			   ? 0
			   : fail(p, request_status(errno), request_reason(errno));
	if (S_ISDIR(st.st_mode))
		return pack_subfolder(p, dir, name, &st);
	if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode) && !S_ISFIFO(st.st_mode))
		return 0;
	if (st.st_nlink > 1 && (first = links_seen(&p->links, &st, p->path)) != NULL)
		return pack_link(p, &st, first);
	return S_ISREG(st.st_mode) ? pack_regular(p, dir, name, &st)
				   : pack_other(p, dir, name, &st);
}

static int
pack_children(struct packer *p, DIR *d)
{
	size_t len = strlen(p->path);
	struct dirent *e;

	while ((e = readdir(d)) != NULL) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
		    temp_known(e->d_name))
			continue;
		if (len + strlen(e->d_name) + 2 > sizeof(p->path))
			return fail(p, 400, "path too long for an archive");
		strcpy(p->path + len, e->d_name);
		if (pack_entry(p, dirfd(d), e->d_name) < 0)
			return -1; /* path stays as it is: it names the entry */
		p->path[len] = '\0';
	}
	return 0;
}

/* Takes fd. The path gets a slash for the children and loses it again. */
static int
pack_folder(struct packer *p, int fd, const struct stat *st)
{
	struct archive_entry *e;
	size_t len = strlen(p->path);
	DIR *d = fdopendir(fd);
	int r;

	if (d == NULL) {
		close(fd);
		return fail(p, request_status(errno), request_reason(errno));
	}
	if (len + 2 > sizeof(p->path)) {
		closedir(d);
		return fail(p, 400, "path too long for an archive");
	}
	if (p->path[len - 1] != '/')
		strcat(p->path, "/");
	e = new_entry(p, st);
	r = add_xattrs(p, e, fd);
	if (r == 0)
		r = put_header(p, e);
	archive_entry_free(e);
	if (r == 0)
		r = pack_children(p, d);
	closedir(d);
	if (r == 0)
		p->path[len] = '\0';
	return r;
}

/* The root is known by its descriptor only: its way in is /proc/self/fd. */
static void
pack_root(struct packer *p, const struct worker_job *job)
{
	mode_t need = S_IRUSR | S_IXUSR;
	char self[64];
	struct stat st;
	int fd, dir, lent;

	snprintf(self, sizeof(self), "/proc/self/fd/%d", WORKER_FOLDER);
	if (fstat(WORKER_FOLDER, &st) < 0) {
		fail(p, 500, "cannot be read");
		return;
	}
	dir = S_ISDIR(st.st_mode);
	strcpy(p->path, dir ? "./" : job->name);
	lent = p->exact && dir && st.st_uid == getuid() && (st.st_mode & need) != need;
	if (lent)
		(void)!chmod(self, (st.st_mode | need) & 07777);
	fd = open(self, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0) {
		fail(p, request_status(errno), request_reason(errno));
	} else if (dir) {
		pack_folder(p, fd, &st);
	} else {
		struct archive_entry *e = new_entry(p, &st);

		if (add_xattrs(p, e, fd) == 0)
			pack_open_file(p, e, fd, &st);
		archive_entry_free(e);
	}
	if (lent)
		(void)!chmod(self, st.st_mode & 07777);
}

static void
map_zeros(struct packer *p)
{
	static const char some[STEP];

	p->zeros_size = HOLE_STEP;
	p->zeros =
	    mmap(NULL, HOLE_STEP, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p->zeros == MAP_FAILED) {
		p->zeros = some;
		p->zeros_size = sizeof(some);
	}
}

void
export_run(const struct worker_job *job)
{
	/* The first form of attributes can hold every name, the second is what other programs read.
	 */
	const char *options = job->exact ? "hdrcharset=BINARY,xattrheader=LIBARCHIVE"
					 : "hdrcharset=BINARY,xattrheader=SCHILY";
	static struct packer p;

	p.status = 200;
	p.exact = job->exact;
	map_zeros(&p);
	p.out = archive_write_new();
	if (p.out == NULL || archive_write_set_format_pax(p.out) != ARCHIVE_OK ||
	    archive_write_set_options(p.out, options) != ARCHIVE_OK ||
	    archive_write_set_bytes_per_block(p.out, STEP) != ARCHIVE_OK ||
	    archive_write_set_bytes_in_last_block(p.out, 1) != ARCHIVE_OK ||
	    archive_write_open(p.out, NULL, NULL, on_write, NULL) != ARCHIVE_OK)
		worker_done(500, "", "no archive can be written");
	pack_root(&p, job);
	if (p.status == 200 && archive_write_close(p.out) != ARCHIVE_OK)
		p.status = 500;
	close(WORKER_DATA);
	worker_done(p.status, p.path, p.text);
}
