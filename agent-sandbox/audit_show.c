/* "audit tail" and "audit show": lines of the audit log for people, or as they are with --json. */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "agent-sandbox/audit.h"
#include "agent-sandbox/client.h"
#include "agent-sandbox/show.h"
#include "common/log.h"

#define FOLLOW_MS 300
#define MORE_MAX AUDIT_LINE_MAX

/* Members that have a column of their own, or that tell nothing to people. */
static const char *const own[] = {"time", "seq", "prev", "action", "target", "key", "tenant",
    "status", "request_id", "args_sha256", "signature", NULL};

static int
is_left_out(const char *name)
{
	for (size_t i = 0; own[i] != NULL; i++)
		if (strcmp(own[i], name) == 0)
			return 1;
	return 0;
}

/* As it is, or in quotes where it could be taken for more than one value: it may be a sandbox's. */
static char *
value_text(const json_t *value)
{
	const char *text = json_string_value(value);
	int plain = text != NULL && *text != '\0' && strlen(text) == json_string_length(value) &&
		    strpbrk(text, " =\"\\") == NULL;
	char *copy = plain ? strdup(text) : json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);

	if (copy == NULL)
		fatalx("no memory");
	return copy;
}

/* The other members as name=value. */
static void
more(const json_t *o, char *out, size_t size)
{
	const char *name;
	json_t *value;
	size_t n = 0;

	out[0] = '\0';
	json_object_foreach ((json_t *)(uintptr_t)o, name, value) {
		char *text;

		if (is_left_out(name) || json_is_null(value) || n >= size)
			continue;
		text = value_text(value);
		n += (size_t)snprintf(out + n, size - n, "%s%s=%s", n > 0 ? " " : "", name, text);
		free(text);
	}
}

static void
print_row(const json_t *o)
{
	char text[MORE_MAX], safe[4 * MORE_MAX], who[160], cell[5][4 * 160];
	const json_t *status = json_object_get(o, "status");
	const char *tenant = client_text(o, "tenant");

	snprintf(
	    who, sizeof(who), "%s%s%s", client_text(o, "key"), *tenant != '\0' ? "@" : "", tenant);
	more(o, text, sizeof(text));
	printf("%-27s  %-15s  %-19s  %-20s  %3s  %s\n",
	    show_line(client_text(o, "time"), cell[0], sizeof(cell[0])),
	    show_line(client_text(o, "action"), cell[1], sizeof(cell[1])),
	    *client_text(o, "target") != '\0'
		? show_line(client_text(o, "target"), cell[2], sizeof(cell[2]))
		: "-",
	    *who != '\0' ? show_line(who, cell[3], sizeof(cell[3])) : "-",
	    json_is_integer(status)
		? (snprintf(cell[4], sizeof(cell[4]), "%d", (int)json_integer_value(status)),
		      cell[4])
		: "-",
	    show_line(text, safe, sizeof(safe)));
}

static int
matches(const json_t *o)
{
	const struct audit_options *want = &audit_options;

	if (want->sandbox != NULL) {
		const char *target = client_text(o, "target");
		size_t skip = strncmp(want->sandbox, "sb_", 3) == 0 ? 0 : 3;

		if (strncmp(target, "sb_", 3) != 0 ||
		    strncmp(target + skip, want->sandbox, strlen(want->sandbox)) != 0)
			return 0;
	}
	if (want->keys.n > 0 && strcmp(client_text(o, "key"), want->keys.v[0]) != 0)
		return 0;
	return want->action == NULL || strcmp(client_text(o, "action"), want->action) == 0;
}

/* On a terminal what it could obey is escaped. */
static void
print_json(const json_t *o, const char *line, size_t len)
{
	char *safe;

	if (!isatty(STDOUT_FILENO)) {
		printf("%.*s\n", (int)len, line);
		return;
	}
	safe = show_dump(o, JSON_COMPACT);
	puts(safe);
	free(safe);
}

static void
print_line(const char *line, size_t len)
{
	json_t *o;

	if (audit_options.since != NULL && audit_line_time(line, len) < audit_options.since_us)
		return;
	if ((o = json_loadb(line, len, JSON_ALLOW_NUL, NULL)) == NULL) {
		log_warnx("a line that is none is left out: see \"audit verify\"");
		return;
	}
	if (matches(o)) {
		if (common_options.json)
			print_json(o, line, len);
		else
			print_row(o);
	}
	json_decref(o);
}

/* Nothing is left out without a word. */
static int
was_whole(enum audit_read end, const char *path)
{
	if (end == AUDIT_END)
		return 1;
	log_warnx("%s: %s: see \"audit verify\"", path,
	    end == AUDIT_TORN ? "its last line has no end, and is left out"
			      : "a line is too long, and nothing behind it is shown");
	return 0;
}

int
audit_show(char **named, size_t n)
{
	struct audit_files files;
	int whole = 1;

	audit_files_find(&files, named, n);
	for (size_t i = 0; i < files.n; i++) {
		struct audit_lines l;
		enum audit_read got;
		const char *line;
		size_t len;

		audit_lines_open(&l, &files, i);
		while ((got = audit_lines_next(&l, &line, &len)) == AUDIT_LINE)
			print_line(line, len);
		whole &= was_whole(got, files.paths[i]);
		audit_lines_close(&l);
	}
	audit_files_free(&files);
	return whole ? show_end() : EXIT_REFUSED;
}

/* The last lines of all files, oldest first. */
struct last {
	char **lines; /* a ring */
	size_t max, n;
};

static void
keep(struct last *last, const char *line, size_t len)
{
	char **place = &last->lines[last->n++ % last->max];

	free(*place);
	if ((*place = strndup(line, len)) == NULL)
		fatalx("no memory");
}

static void
print_last(struct last *last)
{
	size_t begin = last->n > last->max ? last->n - last->max : 0;

	for (size_t i = begin; i < last->n; i++)
		print_line(last->lines[i % last->max], strlen(last->lines[i % last->max]));
	for (size_t i = 0; i < last->max; i++)
		free(last->lines[i]);
	free(last->lines);
}

/* Another file has its name: this one is closed, and was read to its end. */
static int
was_replaced(const struct audit_lines *l)
{
	struct stat here, there;

	return fstat(l->fd, &here) == 0 && stat(l->path, &there) == 0 &&
	       (here.st_ino != there.st_ino || here.st_dev != there.st_dev);
}

static int
follow(struct audit_lines *l, const struct audit_files *files)
{
	const char *line;
	int replaced;
	size_t len;

	for (;;) {
		replaced = was_replaced(l);
		while (audit_lines_next(l, &line, &len) == AUDIT_LINE)
			print_line(line, len);
		if (show_end() != 0)
			return EXIT_REFUSED;
		if (replaced) {
			audit_lines_close(l);
			audit_lines_open(l, files, files->n - 1);
		} else
			poll(NULL, 0, FOLLOW_MS);
	}
}

int
audit_tail(char **named, size_t n)
{
	struct last last = {.max = (size_t)audit_options.lines};
	struct audit_files files;
	struct audit_lines l;
	enum audit_read got;
	const char *line;
	size_t len;
	int whole = 1;

	if (audit_options.lines > 1000000 ||
	    (last.lines = calloc(last.max, sizeof(*last.lines))) == NULL)
		client_failx(EXIT_USE, "--lines: at most 1000000");
	audit_files_find(&files, named, n);
	/* Of the closed files the newest is enough, unless very many lines are wanted. */
	for (size_t i = files.n > 2 && last.max <= 1000 ? files.n - 2 : 0; i < files.n; i++) {
		audit_lines_open(&l, &files, i);
		while ((got = audit_lines_next(&l, &line, &len)) == AUDIT_LINE)
			keep(&last, line, len);
		whole &= was_whole(got, files.paths[i]);
		if (i + 1 < files.n)
			audit_lines_close(&l);
	}
	print_last(&last);
	if (audit_options.follow)
		return follow(&l, &files);
	audit_lines_close(&l);
	audit_files_free(&files);
	return whole ? show_end() : EXIT_REFUSED;
}
