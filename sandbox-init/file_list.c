/*
 * LIST: entries in the order of their names' bytes. A folder may be larger than the memory of the
 * sandbox, so no more than LIST_KEEP bytes of names are held: the smallest ones; when they are sent
 * the folder is read again for the next.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/data.h"
#include "sandbox-init/channel.h"
#include "sandbox-init/file.h"
#include "sandbox-init/mem.h"
#include "sandbox-init/request.h"
#include "sandbox-init/resolve.h"
#include "sandbox-init/stream.h"

#define LIST_KEEP (256 * 1024)
#define READ_STEP 32768 /* bytes of folder in one turn of the loop */
#define ENTRY_MAX (sizeof(struct g_entry) + 256)

struct name {
	uint8_t type; /* DT_… */
	char text[];
};

struct listing {
	int fd;
	struct name **names; /* those held */
	size_t n, cap, bytes;
	size_t sent; /* of names */
	int reading; /* else sending */
	int more;    /* names were left out of this round */
	char *last;  /* everything up to this one was sent */
	char *bound; /* nothing from this one on belongs to this round */
	int64_t total;
};

static void
names_drop(struct listing *l, size_t from)
{
	size_t i;

	for (i = from; i < l->n; i++) {
		l->bytes -= strlen(l->names[i]->text) + 1 + sizeof(*l->names);
		free(l->names[i]);
	}
	l->n = from;
}

static void
listing_free(struct channel *ch)
{
	struct listing *l = ch->state;

	names_drop(l, 0);
	free(l->names);
	free(l->last);
	free(l->bound);
	close(l->fd);
	free(l);
	ch->ops = NULL;
}

static void
set_text(char **where, const char *text)
{
	char *copy = mem_new(strlen(text) + 1);

	strcpy(copy, text);
	free(*where);
	*where = copy;
}

static int
by_name(const void *a, const void *b)
{
	const struct name *const *p = a, *const *q = b;

	return strcmp((*p)->text, (*q)->text);
}

static void
keep(struct listing *l, const char *text, uint8_t type)
{
	struct name *e;

	if ((l->last != NULL && strcmp(text, l->last) <= 0) ||
	    (l->bound != NULL && strcmp(text, l->bound) >= 0))
		return;
	if (l->n == l->cap) {
		l->cap = l->cap ? l->cap * 2 : 64;
		l->names = mem_resize(l->names, l->cap * sizeof(struct name *));
	}
	e = mem_new(sizeof(*e) + strlen(text) + 1);
	e->type = type;
	strcpy(e->text, text);
	l->names[l->n++] = e;
	l->bytes += strlen(text) + 1 + sizeof(*l->names);
	if (l->bytes <= LIST_KEEP)
		return;
	qsort(l->names, l->n, sizeof(struct name *), by_name);
	set_text(&l->bound, l->names[l->n / 2]->text);
	names_drop(l, l->n / 2);
	l->more = 1;
}

/* One step of reading; 0 at the end of the folder, -1 with errno. */
static int
read_step(struct listing *l)
{
	static char buf[READ_STEP] __attribute__((aligned(8)));
	struct dirent64 *d;
	ssize_t n = getdents64(l->fd, buf, sizeof(buf)), at;

	for (at = 0; at < n; at += d->d_reclen) {
		d = (struct dirent64 *)(void *)(buf + at);
		if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
			keep(l, d->d_name, d->d_type);
	}
	return n < 0 ? -1 : n > 0;
}

static uint8_t
type_of_dirent(uint8_t type)
{
	return type == DT_REG   ? FILE_REGULAR
	       : type == DT_DIR ? FILE_DIRECTORY
	       : type == DT_LNK ? FILE_SYMLINK
				: FILE_OTHER;
}

/* Writes one entry; returns its bytes, 0 when it has gone meanwhile. */
static size_t
put_entry(struct listing *l, const struct name *e, uint8_t *out)
{
	struct g_entry g = {.name_len = (uint16_t)strlen(e->text), .type = type_of_dirent(e->type)};
	size_t len = sizeof(g) + (((size_t)g.name_len + 7) & ~(size_t)7);
	struct stat st;

	if (fstatat(l->fd, e->text, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		g.size = st.st_size;
		g.mtime_ns = file_mtime(&st);
		g.mode = st.st_mode & 07777;
		g.type = (uint8_t)file_type(st.st_mode);
	} else if (errno != EACCES) { /* a folder that may be read but not searched: names are all
					 there is */
		return 0;
	}
	memset(out, 0, len);
	memcpy(out, &g, sizeof(g));
	memcpy(out + sizeof(g), e->text, g.name_len);
	return len;
}

static void
send_step(struct channel *ch, struct listing *l, size_t max)
{
	uint8_t *out = stream_reserve();
	size_t len = 0;

	while (l->sent < l->n && max - len >= ENTRY_MAX)
		len += put_entry(l, l->names[l->sent++], out + len);
	if (len > 0)
		channel_put(ch, G_ENTRY, len);
	l->total += (int64_t)len;
}

static void
next_round(struct listing *l)
{
	if (l->n > 0)
		set_text(&l->last, l->names[l->n - 1]->text);
	names_drop(l, 0);
	free(l->bound);
	l->bound = NULL;
	l->sent = 0;
	l->more = 0;
	l->reading = 1;
	lseek(l->fd, 0, SEEK_SET);
}

static int
on_pump(struct channel *ch)
{
	struct listing *l = ch->state;
	int64_t total;
	int r;

	if (l->reading) {
		r = read_step(l);
		if (r < 0) {
			r = errno;
			listing_free(ch);
			request_fail(ch, "directory", r);
			return 0;
		}
		if (r > 0)
			return 1;
		if (l->n > 1)
			qsort(l->names, l->n, sizeof(struct name *), by_name);
		l->reading = 0;
	}
	if (l->sent < l->n) {
		if (channel_allows(ch) < ENTRY_MAX)
			return 0;
		if (stream_room())
			send_step(ch, l, channel_allows(ch));
		return 1;
	}
	if (l->more) {
		next_round(l);
		return 1;
	}
	total = l->total;
	listing_free(ch);
	channel_end(ch, 200, total, "%s", "");
	return 0;
}

static void
on_close(struct channel *ch)
{
	listing_free(ch);
	channel_end(ch, 409, 0, "called off");
}

static const struct channel_ops list_ops = {
    .close = on_close, .kill = on_close, .drop = listing_free, .pump = on_pump};

void
file_list_open(struct channel *ch, const struct request *req)
{
	struct listing *l;
	struct stat st;
	int path_fd = resolve(req->path, request_resolve_flags(req) & ~RESOLVE_PARENTS), fd = -1,
	    error = 0;

	if (path_fd < 0) {
		request_fail(ch, req->path, errno == ENOTDIR ? ENOENT : errno);
		return;
	}
	if (fstat(path_fd, &st) < 0)
		error = errno;
	else if (!S_ISDIR(st.st_mode))
		error = ENOTDIR;
	else if ((fd = resolve_reopen(path_fd, O_RDONLY | O_DIRECTORY | O_NONBLOCK)) < 0)
		error = errno;
	close(path_fd);
	if (error != 0) {
		request_fail(ch, req->path, error);
		return;
	}
	l = mem_new(sizeof(*l));
	l->fd = fd;
	l->reading = 1;
	ch->ops = &list_ops;
	ch->state = l;
}
