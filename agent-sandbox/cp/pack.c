/*
 * An archive of files here, made as it is sent: each call for more bytes goes on where the last one
 * stopped, so that memory does not grow with what is copied.
 */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent-sandbox/cp/cp.h"
#include "agent-sandbox/show.h"
#include "common/log.h"

#define PIECE (256 << 10)

struct pack {
	FTS *fts;
	struct archive *out;
	struct archive_entry_linkresolver *links;
	struct copied *copied;
	const char *name; /* of the top, in the archive */
	size_t top;       /* bytes of the path of the top */
	int fd;           /* file that is being sent, or -1 */
	int64_t left;     /* bytes of it that are to come */
	int done;
	char *ready; /* made, not yet taken */
	size_t at, n, room;
	char piece[PIECE];
	char why[1024];
};

/* libarchive has made some bytes. */
static la_ssize_t
on_made(struct archive *a, void *arg, const void *data, size_t n)
{
	struct pack *p = arg;

	(void)a;
	if (p->n + n > p->room) {
		p->room = (p->n + n) * 2;
		if ((p->ready = realloc(p->ready, p->room)) == NULL)
			fatal("archive");
	}
	memcpy(p->ready + p->n, data, n);
	p->n += n;
	return (la_ssize_t)n;
}

static FTS *
walk(const char *local)
{
	char *paths[] = {(char *)(uintptr_t)local, NULL};

	return fts_open(paths, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, NULL);
}

int64_t
pack_size(const char *local)
{
	FTS *fts = walk(local);
	int64_t size = 0;
	FTSENT *f;

	if (fts == NULL)
		return 0;
	while ((f = fts_read(fts)) != NULL)
		if (f->fts_info == FTS_F)
			size += f->fts_statp->st_size;
	fts_close(fts);
	return size;
}

struct pack *
pack_new(const char *local, const char *name, struct copied *copied)
{
	struct pack *p = calloc(1, sizeof(*p));

	if (p == NULL || (p->out = archive_write_new()) == NULL ||
	    (p->links = archive_entry_linkresolver_new()) == NULL)
		fatal("archive");
	p->name = name;
	p->top = strlen(local);
	p->fd = -1;
	p->copied = copied;
	archive_entry_linkresolver_set_strategy(p->links, ARCHIVE_FORMAT_TAR_PAX_INTERCHANGE);
	archive_write_set_format_pax_restricted(p->out);
	archive_write_set_bytes_per_block(p->out, 0);
	if (archive_write_open(p->out, p, NULL, on_made, NULL) != ARCHIVE_OK)
		fatalx("archive: %s", archive_error_string(p->out));
	if ((p->fts = walk(local)) == NULL)
		fatal("%s", local);
	return p;
}

void
pack_free(struct pack *p)
{
	if (p->fd != -1)
		close(p->fd);
	fts_close(p->fts);
	archive_entry_linkresolver_free(p->links);
	archive_write_free(p->out);
	free(p->ready);
	free(p);
}

const char *
pack_error(const struct pack *p)
{
	return p->why;
}

static int
failed(struct pack *p, const char *path, const char *what)
{
	char line[512];

	snprintf(p->why, sizeof(p->why), "%s: %s", show_line(path, line, sizeof(line)), what);
	return -1;
}

/* The name in the archive: what is below the top, behind the name that the top gets. */
static void
set_name(const struct pack *p, struct archive_entry *e, const FTSENT *f)
{
	char *name;

	if (asprintf(&name, "%s%s%s", p->name,
		f->fts_path[p->top] != '/' && f->fts_path[p->top] != '\0' ? "/" : "",
		f->fts_path + p->top) == -1)
		fatal("archive");
	archive_entry_copy_pathname(e, name);
	free(name);
}

/* 0, -1, or 1: it leads out and stays behind, since a sandbox takes no such link. */
static int
set_link(struct pack *p, struct archive_entry *e, const FTSENT *f)
{
	char target[4096];
	ssize_t n = readlink(f->fts_path, target, sizeof(target) - 1);

	if (n == -1)
		return failed(p, f->fts_path, strerror(errno));
	target[n] = '\0';
	archive_entry_copy_symlink(e, target);
	if (cp_options.all_links || link_stays_inside(target, f->fts_level - 1))
		return 0;
	p->copied->links_left++;
	return 1;
}

static int
write_entry(struct pack *p, struct archive_entry *e, const FTSENT *f)
{
	struct archive_entry *spare = NULL;

	archive_entry_linkify(p->links, &e, &spare);
	if (archive_write_header(p->out, e) < ARCHIVE_WARN)
		return failed(p, f->fts_path, archive_error_string(p->out));
	p->left = archive_entry_size(e);
	p->copied->files += S_ISREG(f->fts_statp->st_mode);
	if (p->left == 0 || archive_entry_hardlink(e) != NULL || !S_ISREG(f->fts_statp->st_mode)) {
		p->left = 0;
		return 0;
	}
	if ((p->fd = open(f->fts_accpath, O_RDONLY | O_CLOEXEC | O_NONBLOCK)) == -1)
		return failed(p, f->fts_path, strerror(errno));
	posix_fadvise(p->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	return 0;
}

static int
begin_entry(struct pack *p, const FTSENT *f)
{
	struct archive_entry *e = archive_entry_new();
	int r;

	if (e == NULL)
		fatal("archive");
	set_name(p, e, f);
	archive_entry_copy_stat(e, f->fts_statp);
	archive_entry_set_uid(e, 0);
	archive_entry_set_gid(e, 0);
	archive_entry_set_perm(e, f->fts_statp->st_mode & 0777);
	r = S_ISLNK(f->fts_statp->st_mode) ? set_link(p, e, f) : 0;
	if (r == 0)
		r = write_entry(p, e, f);
	archive_entry_free(e);
	return r == -1 ? -1 : 0;
}

static int
next_entry(struct pack *p)
{
	FTSENT *f;

	errno = 0;
	if ((f = fts_read(p->fts)) == NULL) {
		if (errno != 0)
			return failed(p, p->name, strerror(errno));
		p->done = 1;
		return archive_write_close(p->out) == ARCHIVE_OK
			   ? 0
			   : failed(p, p->name, archive_error_string(p->out));
	}
	switch (f->fts_info) {
	case FTS_DP:
		return 0;
	case FTS_D:
	case FTS_F:
	case FTS_SL:
	case FTS_SLNONE:
		return begin_entry(p, f);
	case FTS_DEFAULT:
		p->copied->left_out++;
		return 0;
	case FTS_DC:
		return failed(p, f->fts_path, "a folder that contains itself");
	default:
		return failed(p, f->fts_path, strerror(f->fts_errno));
	}
}

static int
next_piece(struct pack *p)
{
	size_t want = p->left < PIECE ? (size_t)p->left : PIECE;
	ssize_t n;

	do
		n = read(p->fd, p->piece, want);
	while (n == -1 && errno == EINTR && cp_caught == 0);
	if (n == -1)
		return failed(p, p->name, strerror(errno));
	if (n == 0)
		return failed(p, p->name, "a file in it became shorter meanwhile");
	if (archive_write_data(p->out, p->piece, (size_t)n) != n)
		return failed(p, p->name, archive_error_string(p->out));
	p->copied->bytes += n;
	progress_add(n);
	if ((p->left -= n) == 0) {
		close(p->fd);
		p->fd = -1;
	}
	return 0;
}

ssize_t
pack_read(void *arg, char *buf, size_t size)
{
	struct pack *p = arg;
	size_t n;

	if (cp_caught != 0)
		return -1;
	if (p->at == p->n)
		p->at = p->n = 0;
	while (p->n - p->at < size && p->n < PIECE && !p->done)
		if ((p->fd != -1 ? next_piece(p) : next_entry(p)) == -1)
			return -1;
	n = p->n - p->at < size ? p->n - p->at : size;
	memcpy(buf, p->ready + p->at, n);
	p->at += n;
	return (ssize_t)n;
}
