/* Verbs for single files and lists of them: cat, put, files. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "agent-sandbox/client.h"
#include "agent-sandbox/show.h"
#include "agent-sandbox/verb.h"
#include "clients/api/text.h"

static struct {
	int raw;
	int failed; /* errno of writing */
} cat;

static const struct option_row cat_rows[] = {
    {"raw", 'r', OPTION_FLAG, &cat.raw, NULL,
	"on a terminal too, write what the terminal would obey as it is"},
    {0},
};
const struct usage usage_cat = {"cat", "SANDBOX:PATH... | SANDBOX PATH...",
    "Writes files of a sandbox to standard output.", cat_rows, 1, -1, 0, NULL, 0};

/* On a terminal, a character that is not whole yet waits for the rest. */
static struct {
	int safe;
	char rest[4];
	size_t n;
} writer;

static size_t
whole_chars(const char *p, size_t n)
{
	size_t back = 0;

	while (back < 3 && back < n && ((unsigned char)p[n - 1 - back] & 0xc0) == 0x80)
		back++;
	if (back < n && (unsigned char)p[n - 1 - back] >= 0xc2) {
		unsigned char first = (unsigned char)p[n - 1 - back];
		size_t want = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;

		if (back + 1 < want)
			return n - back - 1;
	}
	return n;
}

static int
on_bytes(void *arg, const char *data, size_t n)
{
	size_t whole;

	(void)arg;
	if (!writer.safe) {
		if (show_write(STDOUT_FILENO, data, n) == 0)
			return 0;
		cat.failed = errno;
		return -1;
	}
	while (n > 0 && writer.n > 0) {
		writer.rest[writer.n++] = *data++;
		n--;
		if (writer.n == sizeof(writer.rest) ||
		    whole_chars(writer.rest, writer.n) == writer.n) {
			show_text(stdout, writer.rest, writer.n);
			writer.n = 0;
		}
	}
	whole = whole_chars(data, n);
	show_text(stdout, data, whole);
	memcpy(writer.rest, data + whole, n - whole);
	if (n > whole)
		writer.n = n - whole;
	return ferror(stdout) ? -1 : 0;
}

static void
cat_one(const char *id, const char *file)
{
	char *path = api_path("/v1/sandboxes/%s/files?path=%s", id, file);
	struct api_call *c = api_call_new(client_server(), "GET", path);
	struct api_error e;

	api_call_download(c, on_bytes, NULL);
	if (api_call_run(c, &e) == -1) {
		if (e.kind == API_STOPPED)
			exit(cat.failed != 0 ? show_failed(cat.failed) : show_end());
		client_fail(&e);
	}
	show_text(stdout, writer.rest, writer.n);
	writer.n = 0;
	api_call_free(c);
	free(path);
}

int
verb_cat(int argc, char **argv)
{
	int n, at = 0;
	char **words = options_read(&usage_cat, argc, argv, &n), *id = NULL;
	const char *file;

	if (common_options.json)
		options_wrong(&usage_cat, "a file is no JSON: \"files --json\" tells about files");
	writer.safe = !cat.raw && isatty(STDOUT_FILENO);
	if (!client_is_place(words[0])) {
		if (n == 1)
			options_wrong(&usage_cat, "the path is missing");
		id = client_sandbox(words[at++]);
	}
	for (; at < n; at++) {
		if (id != NULL) {
			cat_one(id, words[at]);
		} else {
			char *one = client_place(&usage_cat, words[at], &file);

			cat_one(one, file);
			free(one);
		}
	}
	free(id);
	return show_end();
}

static struct {
	const char *mode;
} put;

static const struct option_row put_rows[] = {
    {"mode", 0, OPTION_TEXT, &put.mode, "OCTAL",
	"permissions, such as 755 (else the file's, or 644)"},
    {0},
};
const struct usage usage_put = {"put", "[FILE] SANDBOX:PATH | SANDBOX PATH [FILE]",
    "Stores a file, or standard input, as one file of a sandbox.", put_rows, 1, 3, 0, NULL, 0};

struct source {
	int fd;
	const char *name;
	int64_t left; /* -1: not known */
};

static ssize_t
on_source(void *arg, char *buf, size_t size)
{
	struct source *s = arg;
	ssize_t n;

	/* What it grows by meanwhile is not sent. */
	if (s->left != -1 && (uint64_t)s->left < size)
		size = (size_t)s->left;
	do
		n = read(s->fd, buf, size);
	while (n == -1 && errno == EINTR);
	if (n == -1)
		client_failx(EXIT_REFUSED, "%s: %s", s->name, strerror(errno));
	if (s->left == -1)
		return n;
	if (n == 0 && s->left > 0)
		client_failx(EXIT_REFUSED, "%s: it became shorter meanwhile", s->name);
	s->left -= n;
	return n;
}

static void
open_source(struct source *s, const char *name, char mode[8])
{
	struct stat st;

	s->fd = STDIN_FILENO;
	s->name = "standard input";
	if (strcmp(name, "-") != 0) {
		s->name = name;
		if ((s->fd = open(name, O_RDONLY | O_CLOEXEC)) == -1)
			client_failx(EXIT_REFUSED, "%s: %s", name, strerror(errno));
	}
	if (fstat(s->fd, &st) == -1)
		client_failx(EXIT_REFUSED, "%s: %s", s->name, strerror(errno));
	if (S_ISDIR(st.st_mode))
		client_failx(
		    EXIT_REFUSED, "%s: a folder: \"agent-sandbox cp\" copies those", s->name);
	/* Those of /proc say that they are empty. */
	s->left =
	    S_ISREG(st.st_mode) && st.st_size > 0 ? st.st_size - lseek(s->fd, 0, SEEK_CUR) : -1;
	if (s->left < -1)
		s->left = 0;
	if (S_ISREG(st.st_mode) && s->fd != STDIN_FILENO)
		snprintf(mode, 8, "%03o", (unsigned)st.st_mode & 0777);
}

static int
is_sandbox(const char *word)
{
	return strncmp(word, "sb_", 3) == 0 && strchr(word, ':') == NULL;
}

int
verb_put(int argc, char **argv)
{
	int n;
	char **words = options_read(&usage_put, argc, argv, &n);
	char *id, *path, own_mode[8] = "644";
	const char *file;
	struct source source;
	struct api_call *c;
	json_t *answer;

	/* A path may have a colon in it too. */
	if (n > 1 && (!client_is_place(words[n - 1]) || is_sandbox(words[0]))) {
		open_source(&source, n == 3 ? words[2] : "-", own_mode);
		id = client_sandbox(words[0]);
		file = words[1];
	} else {
		if (n > 2)
			options_wrong(&usage_put, "%s is one argument too many", words[1]);
		open_source(&source, n == 2 ? words[0] : "-", own_mode);
		id = client_place(&usage_put, words[n - 1], &file);
	}
	path = api_path("/v1/sandboxes/%s/files?path=%s&mode=%s", id, file,
	    put.mode != NULL ? put.mode : own_mode);
	c = api_call_new(client_server(), "PUT", path);
	api_call_upload(c, source.left, on_source, &source);
	answer = client_run(c);
	client_check(answer, "path");
	if (common_options.json)
		show_json(answer);
	json_decref(answer);
	free(path);
	free(id);
	return show_end();
}

static struct {
	int quiet;
} files;

static const struct option_row files_rows[] = {
    {"quiet", 'q', OPTION_FLAG, &files.quiet, NULL, "print names only"},
    {0},
};
const struct usage usage_files = {"files", "SANDBOX[:PATH] | SANDBOX PATH",
    "Lists a folder of a sandbox, /workspace if no other is named.", files_rows, 1, 2, 0, NULL, 0};

static void
file_row(struct table *t, const json_t *f)
{
	const char *type = client_text(f, "type");
	char size[SHOW_SIZE_MAX], modified[32];

	table_cell(t, type);
	table_cell(t, strcmp(type, "file") == 0 ? show_size(size, client_number(f, "size")) : "-");
	snprintf(modified, sizeof(modified), "%.19s", client_text(f, "modified_at"));
	if (modified[0] != '\0' && strlen(modified) > 10)
		modified[10] = ' ';
	table_cell(t, modified);
	table_marked(
	    t, client_text(f, "name"), strcmp(type, "directory") == 0 ? COLOUR_BLUE : NULL);
}

int
verb_files(int argc, char **argv)
{
	static const char *const headings[] = {"TYPE", ">SIZE", "MODIFIED (UTC)", "NAME"};
	int n;
	char **words = options_read(&usage_files, argc, argv, &n), *id, line[1024];
	const char *path = n == 2 ? words[1] : "";
	const json_t *list, *one;
	struct table *t;
	json_t *answer;
	size_t i;

	if (n == 1 && client_is_place(words[0]))
		id = client_place(&usage_files, words[0], &path);
	else
		id = client_sandbox(words[0]);
	answer = client_ask("GET",
	    *path != '\0' ? api_path("/v1/sandboxes/%s/files/list?path=%s", id, path)
			  : api_path("/v1/sandboxes/%s/files/list", id),
	    NULL);
	list = client_check_list(answer, "entries", "name");
	if (common_options.json) {
		show_json(answer);
	} else if (files.quiet) {
		json_array_foreach (list, i, one) {
			puts(show_line(client_text(one, "name"), line, sizeof(line)));
		}
	} else {
		t = table_new(headings, sizeof(headings) / sizeof(headings[0]));
		json_array_foreach (list, i, one) {
			file_row(t, one);
		}
		table_print(t);
	}
	json_decref(answer);
	free(id);
	return show_end();
}
