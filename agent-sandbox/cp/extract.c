/*
 * Archive entries to disk. The archive comes out of a sandbox, so nothing in it is believed: each
 * component of a name is opened with O_NOFOLLOW below the new folder, so that no entry can lead the
 * next one elsewhere; only files, folders and links are made; and links that lead out are left out.
 */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "agent-sandbox/cp/cp.h"
#include "agent-sandbox/show.h"

#define HERE (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define NAME_ROOM 4096

struct extract {
	struct archive *in;
	int root;         /* the new folder; -1 while there is none */
	int dir;          /* where the top is made */
	const char *name; /* of the top */
	int parent;       /* folder of the last entry */
	char parent_name[NAME_ROOM];
	struct copied *copied;
	char *why;
};

static void
say(struct extract *x, const char *what, const char *name)
{
	char line[256];

	snprintf(x->why, EXTRACT_WHY, "%s%s%s", what, *name != '\0' ? ": " : "",
	    show_line(name, line, sizeof(line)));
}

/* It is the archive that cannot be. */
static int
failed(struct extract *x, const char *what, const char *name)
{
	say(x, what, name);
	return EXTRACT_BAD;
}

static int
failed_errno(struct extract *x, const char *name)
{
	/* The top has another name for now. */
	say(x, strerror(errno), name != x->name ? name : "");
	return -1;
}

/*
 * The name without "." and needless slashes, in out; "" is the top itself. Returns how deep it is,
 * or -1 if it is absolute, has "..", or is too long.
 */
static int
clean(const char *name, char out[NAME_ROOM])
{
	size_t at = 0, n;
	int depth = 0;

	if (*name == '/')
		return -1;
	for (; *name != '\0'; name += n) {
		name += strspn(name, "/");
		n = strcspn(name, "/");
		if (n == 0 || (n == 1 && *name == '.'))
			continue;
		if ((n == 2 && name[0] == '.' && name[1] == '.') || at + n + 2 > NAME_ROOM)
			return -1;
		if (at > 0)
			out[at++] = '/';
		memcpy(out + at, name, n);
		at += n;
		depth++;
	}
	out[at] = '\0';
	return depth;
}

/* Opens one folder of dir, which is made if make. */
static int
step(int dir, const char *name, int make)
{
	if (make && mkdirat(dir, name, 0777) == -1 && errno != EEXIST)
		return -1;
	return openat(dir, name, HERE);
}

/* The folder in which the last component of name is: x->parent. *last points into name. */
static int
enter(struct extract *x, char *name, char **last, int make)
{
	char *slash = strrchr(name, '/'), *next;
	int fd, up;

	*last = slash != NULL ? slash + 1 : name;
	if (slash == NULL)
		slash = name;
	if (x->parent != -1 && strlen(x->parent_name) == (size_t)(slash - name) &&
	    memcmp(x->parent_name, name, (size_t)(slash - name)) == 0)
		return 0;
	if ((fd = fcntl(x->root, F_DUPFD_CLOEXEC, 3)) == -1)
		return -1;
	for (char *p = name; p < slash; p = next + 1) {
		next = strchr(p, '/');
		*next = '\0';
		up = fd;
		fd = step(up, p, make);
		close(up);
		*next = '/';
		if (fd == -1)
			return -1;
	}
	if (x->parent != -1)
		close(x->parent);
	x->parent = fd;
	memcpy(x->parent_name, name, (size_t)(slash - name));
	x->parent_name[slash - name] = '\0';
	return 0;
}

static int
write_all(int fd, const char *p, size_t n, off_t at)
{
	while (n > 0) {
		ssize_t put = pwrite(fd, p, n, at);

		if (put == -1 && errno == EINTR && cp_caught == 0)
			continue;
		if (put == -1)
			return -1;
		p += put;
		at += put;
		n -= (size_t)put;
	}
	return 0;
}

static int
copy_data(struct extract *x, int fd, const char *name)
{
	const void *data;
	la_int64_t at;
	size_t n;
	int r;

	while ((r = archive_read_data_block(x->in, &data, &n, &at)) == ARCHIVE_OK) {
		if (cp_caught != 0)
			return failed(x, "interrupted", "");
		if (write_all(fd, data, n, at) == -1)
			return failed_errno(x, name);
		x->copied->bytes += (int64_t)n;
		progress_add((int64_t)n);
	}
	return r == ARCHIVE_EOF ? 0 : failed(x, "the archive is broken", name);
}

static int
make_file(struct extract *x, struct archive_entry *e, int dir, const char *name)
{
	struct timespec times[2] = {
	    {0, UTIME_OMIT}, {archive_entry_mtime(e), archive_entry_mtime_nsec(e)}};
	mode_t mode = archive_entry_perm(e) & 0777;
	int fd, r;

	if (unlinkat(dir, name, 0) == -1 && errno != ENOENT)
		return failed_errno(x, name);
	fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode | 0200);
	if (fd == -1)
		return failed_errno(x, name);
	r = copy_data(x, fd, name);
	/* A hole at the end is a part of the file too. */
	if (r == 0 && ftruncate(fd, archive_entry_size(e)) == -1)
		r = failed_errno(x, name);
	if (r == 0 && !(mode & 0200)) {
		mode_t mask = umask(0);

		umask(mask);
		fchmod(fd, mode & ~mask);
	}
	futimens(fd, times);
	if (close(fd) == -1 && r == 0)
		r = failed_errno(x, name);
	x->copied->files++;
	return r;
}

/* Another name of a file that is here already. */
static int
make_hard_link(struct extract *x, const char *target, int dir, const char *name)
{
	char path[NAME_ROOM], *last;
	struct stat st;
	int r, to;

	if (x->root == -1 || clean(target, path) < 1)
		return failed(x, "the archive has a link that leads out of it", name);
	if ((to = fcntl(dir, F_DUPFD_CLOEXEC, 3)) == -1)
		return failed_errno(x, name);
	r = enter(x, path, &last, 0);
	if (r == 0)
		r = fstatat(x->parent, last, &st, AT_SYMLINK_NOFOLLOW);
	if (r == 0 && !S_ISREG(st.st_mode)) {
		errno = EINVAL;
		r = -1;
	}
	if (r == 0 && unlinkat(to, name, 0) == -1 && errno != ENOENT)
		r = -1;
	if (r == 0)
		r = linkat(x->parent, last, to, name, 0);
	if (r == -1)
		r = failed_errno(x, name);
	close(to);
	x->copied->files++;
	return r;
}

static int
make_link(struct extract *x, const char *target, int depth, int dir, const char *name)
{
	if (!cp_options.all_links && !link_stays_inside(target, depth - 1)) {
		x->copied->links_left++;
		return 0;
	}
	if (unlinkat(dir, name, 0) == -1 && errno != ENOENT)
		return failed_errno(x, name);
	if (symlinkat(target, dir, name) == -1)
		return failed_errno(x, name);
	x->copied->files++;
	return 0;
}

static int
make_folder(struct extract *x, struct archive_entry *e, int dir, const char *name)
{
	mode_t mode = (archive_entry_perm(e) & 0777) | 0700;
	struct stat st;

	if (mkdirat(dir, name, mode) == 0)
		return 0;
	if (errno == EEXIST && fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    S_ISDIR(st.st_mode))
		return 0;
	return failed_errno(x, name);
}

/* One entry, below the top or the top itself, by its last name in dir. */
static int
make_entry(struct extract *x, struct archive_entry *e, int depth, int dir, const char *name)
{
	const char *hard = archive_entry_hardlink(e), *soft = archive_entry_symlink(e);

	if (hard != NULL)
		return make_hard_link(x, hard, dir, name);
	switch (archive_entry_filetype(e)) {
	case AE_IFREG:
		return make_file(x, e, dir, name);
	case AE_IFDIR:
		return make_folder(x, e, dir, name);
	case AE_IFLNK:
		return make_link(x, soft != NULL ? soft : "", depth, dir, name);
	case AE_IFIFO:
	case AE_IFSOCK:
		x->copied->left_out++;
		return 0;
	default:
		return failed(x, "the archive has a device in it", name);
	}
}

static int
next_header(struct extract *x, struct archive_entry **e)
{
	int r = archive_read_next_header(x->in, e);

	if (cp_caught != 0)
		return failed(x, "interrupted", "");
	if (r == ARCHIVE_EOF)
		return 0;
	if (r < ARCHIVE_WARN || archive_entry_pathname(*e) == NULL)
		return failed(x, "the archive is broken", "");
	return 1;
}

/* The first entry is the top: a folder, to which all else belongs, or one file. */
static int
make_top(struct extract *x)
{
	struct archive_entry *e;
	char name[NAME_ROOM];
	int depth, r;

	if ((r = next_header(x, &e)) <= 0)
		return r == 0 ? failed(x, "the archive is empty", "") : r;
	depth = clean(archive_entry_pathname(e), name);
	if (depth == 0 && archive_entry_filetype(e) == AE_IFDIR) {
		if (make_folder(x, e, x->dir, x->name) == -1)
			return -1;
		if ((x->root = openat(x->dir, x->name, HERE)) == -1)
			return failed_errno(x, x->name);
		return 0;
	}
	if (depth != 1 || archive_entry_filetype(e) != AE_IFREG)
		return failed(x, "the archive is neither a file nor a folder", "");
	progress_total(archive_entry_size(e));
	return make_file(x, e, x->dir, x->name);
}

static int
make_rest(struct extract *x)
{
	struct archive_entry *e;
	char name[NAME_ROOM], *last;
	int r, depth;

	while ((r = next_header(x, &e)) == 1) {
		depth = clean(archive_entry_pathname(e), name);
		if (depth == -1 || x->root == -1)
			return failed(x, "the archive has a name that leads out of it",
			    archive_entry_pathname(e));
		if (depth == 0)
			continue;
		if (enter(x, name, &last, 1) == -1)
			return failed_errno(x, name);
		if ((r = make_entry(x, e, depth, x->parent, last)) != 0)
			return r;
	}
	return r;
}

int
extract_tree(struct archive *in, int dir, const char *name, struct copied *copied, char *why)
{
	struct extract x = {in, -1, dir, name, -1, "", copied, why};
	int r = make_top(&x);

	if (r == 0)
		r = make_rest(&x);
	if (x.parent != -1)
		close(x.parent);
	if (x.root != -1)
		close(x.root);
	return r;
}
