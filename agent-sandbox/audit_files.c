/* The files of the audit log, and their lines (audit.h). */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent-sandbox/audit.h"
#include "agent-sandbox/client.h"
#include "agent-sandbox/data_file.h"
#include "common/ids.h"
#include "common/log.h"
#include "config/settings.h"

#define PIECE (1024 * 1024)

static void
add(struct audit_files *f, char *path)
{
	f->paths = reallocarray(f->paths, f->n + 1, sizeof(*f->paths));
	if (f->paths == NULL || path == NULL)
		fatalx("no memory");
	f->paths[f->n++] = path;
}

static char *
joined(const char *folder, const char *name)
{
	char *path;

	if (asprintf(&path, "%s/%s", folder, name) == -1)
		fatalx("no memory");
	return path;
}

static int
is_closed(const struct dirent *d)
{
	uint64_t first;

	return audit_closed_parse(d->d_name, &first) == 0;
}

/* Names of more digits come behind the others. */
static int
by_first(const struct dirent **a, const struct dirent **b)
{
	uint64_t x = 0, y = 0;

	audit_closed_parse((*a)->d_name, &x);
	audit_closed_parse((*b)->d_name, &y);
	return x < y ? -1 : x > y;
}

static void
no_word(const char *text)
{
	(void)text;
}

static char *
data_dir(void)
{
	char text[CONFIG_ERROR_MAX], *dir;
	struct settings s;

	config_init(&s);
	if (audit_options.file == NULL) {
		/* Where the server is runs with more settings than this needs: only one counts. */
		const char *given = getenv("AGENT_SANDBOX_DATA_DIR");

		dir = strdup(given != NULL && *given != '\0' ? given : s.c.str[CFG_DATA_DIR]);
	} else {
		if (config_load(&s, audit_options.file, text, no_word) == -1)
			client_failx(EXIT_USE, "%s", text);
		dir = strdup(s.c.str[CFG_DATA_DIR]);
	}
	if (dir == NULL)
		fatalx("no memory");
	config_free(&s);
	return dir;
}

void
audit_files_find(struct audit_files *f, char **named, size_t n)
{
	struct dirent **list;
	char *now;
	int count;

	memset(f, 0, sizeof(*f));
	for (size_t i = 0; i < n; i++)
		add(f, strdup(named[i]));
	if (n > 0)
		return;
	f->folder = data_dir();
	if ((count = scandir(f->folder, &list, is_closed, by_first)) == -1)
		client_failx(EXIT_REFUSED, "%s: %s", f->folder, strerror(errno));
	for (int i = 0; i < count; i++) {
		add(f, joined(f->folder, list[i]->d_name));
		free(list[i]);
	}
	free(list);
	now = joined(f->folder, AUDIT_FILE);
	if (faccessat(AT_FDCWD, now, F_OK, AT_SYMLINK_NOFOLLOW) == 0) /* a link is told of */
		add(f, now);
	else
		free(now);
	if (f->n == 0)
		client_failx(EXIT_NOT_FOUND, "%s: there is no audit log in it", f->folder);
}

void
audit_files_free(struct audit_files *f)
{
	for (size_t i = 0; i < f->n; i++)
		free(f->paths[i]);
	free(f->paths);
	free(f->folder);
}

void
audit_lines_open(struct audit_lines *l, const struct audit_files *f, size_t i)
{
	memset(l, 0, sizeof(*l));
	l->path = f->paths[i];
	l->fd = data_file_open(AT_FDCWD, l->path, f->folder != NULL ? O_NOFOLLOW : 0);
	if (l->fd == -1)
		client_failx(EXIT_REFUSED, "%s: %s", l->path, data_file_error());
	if ((l->buf = malloc(PIECE)) == NULL)
		fatalx("no memory");
}

void
audit_lines_close(struct audit_lines *l)
{
	close(l->fd);
	free(l->buf);
}

/* More behind what is left; 0 when there is no more. */
static size_t
fill(struct audit_lines *l)
{
	ssize_t n;

	memmove(l->buf, l->buf + l->at, l->have - l->at);
	l->have -= l->at;
	l->at = 0;
	if ((n = read(l->fd, l->buf + l->have, PIECE - l->have)) == -1)
		client_failx(EXIT_REFUSED, "%s: %s", l->path, strerror(errno));
	l->have += (size_t)n;
	return (size_t)n;
}

enum audit_read
audit_lines_next(struct audit_lines *l, const char **line, size_t *len)
{
	const char *stop;
	size_t seen = 0;

	while ((stop = memchr(l->buf + l->at + seen, '\n', l->have - l->at - seen)) == NULL) {
		seen = l->have - l->at;
		if (seen == PIECE)
			return AUDIT_LONG;
		if (fill(l) == 0) {
			if (seen > 0)
				l->number++;
			return seen > 0 ? AUDIT_TORN : AUDIT_END;
		}
	}
	*line = l->buf + l->at;
	*len = (size_t)(stop - *line);
	l->at += *len + 1;
	l->number++;
	return AUDIT_LINE;
}

int64_t
audit_line_time(const char *line, size_t len)
{
	static const char begin[] = "\"time\":\"";
	const char *p = memmem(line, len, begin, sizeof(begin) - 1), *stop;
	char text[TIME_TEXT_MAX];
	int64_t us;

	if (p == NULL)
		return -1;
	p += sizeof(begin) - 1;
	stop = memchr(p, '"', len - (size_t)(p - line));
	if (stop == NULL || (size_t)(stop - p) >= sizeof(text))
		return -1;
	memcpy(text, p, (size_t)(stop - p));
	text[stop - p] = '\0';
	return time_parse(text, &us) == 0 ? us : -1;
}
