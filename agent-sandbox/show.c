/* What people see (show.h). */
#include <errno.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

#include "agent-sandbox/show.h"
#include "clients/api/text.h"
#include "common/log.h"

#define GAP 2
#define CELL_MAX 1024

struct cell {
	char *text;
	const char *colour;
	int width;
};

struct table {
	const char *const *headings;
	size_t columns;
	struct cell *cells;
	size_t n, room;
};

/* How an unsafe character, or a byte that is no character, is shown. */
static int
escape(uint32_t c, int is_byte, char out[16])
{
	if (c == '\n')
		return snprintf(out, 16, "\\n");
	if (c == '\r')
		return snprintf(out, 16, "\\r");
	if (c == '\t')
		return snprintf(out, 16, "\\t");
	if (is_byte || c < 0x100)
		return snprintf(out, 16, "\\x%02x", (unsigned)c);
	return snprintf(out, 16, "\\u{%x}", (unsigned)c);
}

/* The next character of p made safe in out, which is no string; *taken bytes were read. */
static size_t
safe_char(const char *p, size_t n, char out[16], size_t *taken)
{
	uint32_t c;

	*taken = text_char(p, n, &c);
	if (*taken == 1 && c == 0xfffd)
		return (size_t)escape((unsigned char)*p, 1, out);
	if (text_is_unsafe(c))
		return (size_t)escape(c, 0, out);
	memcpy(out, p, *taken);
	return *taken;
}

char *
show_bytes(const char *p, size_t n, char *out, size_t size)
{
	size_t at = 0, len, taken;
	char one[16];

	for (; n > 0; p += taken, n -= taken) {
		len = safe_char(p, n, one, &taken);
		if (at + len >= size)
			break;
		memcpy(out + at, one, len);
		at += len;
	}
	out[at] = '\0';
	return out;
}

char *
show_line(const char *text, char *out, size_t size)
{
	return show_bytes(text, strlen(text), out, size);
}

void
show_text(FILE *f, const char *p, size_t n)
{
	size_t len, taken;
	char one[16];

	for (; n > 0; p += taken, n -= taken) {
		taken = 1;
		if (*p == '\n' || *p == '\t') {
			putc(*p, f);
			continue;
		}
		len = safe_char(p, n, one, &taken);
		fwrite(one, 1, len, f);
	}
}

int
show_width(const char *text)
{
	size_t n = strlen(text), len;
	int width = 0, w;
	uint32_t c;

	for (; n > 0; text += len, n -= len) {
		len = text_char(text, n, &c);
		w = c < 0x80 ? 1 : wcwidth((wchar_t)c);
		width += w < 0 ? 1 : w;
	}
	return width;
}

char *
show_size(char buf[SHOW_SIZE_MAX], int64_t bytes)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
	double v = (double)bytes;
	size_t i = 0;

	while (v >= 1024 && i + 1 < sizeof(units) / sizeof(units[0])) {
		v /= 1024;
		i++;
	}
	snprintf(buf, SHOW_SIZE_MAX, i > 0 && v < 10 ? "%.1f %s" : "%.0f %s", v, units[i]);
	return buf;
}

char *
show_duration(char buf[SHOW_TIME_MAX], int64_t s)
{
	long long v = s < 0 ? 0 : s;

	if (v < 60)
		snprintf(buf, SHOW_TIME_MAX, "%llds", v);
	else if (v < 3600)
		snprintf(buf, SHOW_TIME_MAX, "%lldm %llds", v / 60, v % 60);
	else if (v < 86400)
		snprintf(buf, SHOW_TIME_MAX, "%lldh %lldm", v / 3600, v % 3600 / 60);
	else
		snprintf(buf, SHOW_TIME_MAX, "%lldd %lldh", v / 86400 % 100000, v % 86400 / 3600);
	return buf;
}

int64_t
show_parse_time(const char *text)
{
	struct tm tm = {0};
	const char *end = text != NULL ? strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) : NULL;

	if (end == NULL || (*end != '.' && *end != 'Z'))
		return -1;
	return timegm(&tm);
}

struct table *
table_new(const char *const *headings, size_t n)
{
	struct table *t = calloc(1, sizeof(*t));

	if (t == NULL)
		fatal("table");
	setlocale(LC_CTYPE, "C.UTF-8"); /* for wcwidth(3) */
	t->headings = headings;
	t->columns = n;
	return t;
}

void
table_marked(struct table *t, const char *text, const char *colour)
{
	char safe[CELL_MAX];
	struct cell *c;

	if (t->n == t->room) {
		t->room = t->room * 2 + 64;
		if ((t->cells = reallocarray(t->cells, t->room, sizeof(*t->cells))) == NULL)
			fatal("table");
	}
	c = &t->cells[t->n++];
	if ((c->text = strdup(show_line(text, safe, sizeof(safe)))) == NULL)
		fatal("table");
	c->colour = colour;
	c->width = show_width(c->text);
}

void
table_cell(struct table *t, const char *text)
{
	table_marked(t, text, NULL);
}

static const char *
heading(const struct table *t, size_t column)
{
	return t->headings[column] + (*t->headings[column] == '>');
}

static void
print_cell(const struct table *t, size_t column, const struct cell *c, int width)
{
	int last = column + 1 == t->columns, right = *t->headings[column] == '>';
	int pad = width - c->width, coloured = c->colour != NULL && show_colours();

	if (right && pad > 0)
		printf("%*s", pad, "");
	if (coloured)
		printf("\x1b[%sm", c->colour);
	fputs(c->text, stdout);
	if (coloured)
		printf("\x1b[0m");
	if (!last)
		printf("%*s", (right || pad < 0 ? 0 : pad) + GAP, "");
}

void
table_print(struct table *t)
{
	int *width = calloc(t->columns + 1, sizeof(*width));

	if (width == NULL)
		fatal("table");
	for (size_t i = 0; i < t->columns; i++)
		width[i] = show_width(heading(t, i));
	for (size_t i = 0; i < t->n; i++)
		if (t->cells[i].width > width[i % t->columns])
			width[i % t->columns] = t->cells[i].width;
	for (size_t i = 0; i < t->columns; i++) {
		struct cell c = {(char *)(uintptr_t)heading(t, i), COLOUR_FAINT, 0};

		c.width = show_width(c.text);
		print_cell(t, i, &c, width[i]);
	}
	putchar('\n');
	for (size_t i = 0; i < t->n; i++) {
		print_cell(t, i % t->columns, &t->cells[i], width[i % t->columns]);
		if ((i + 1) % t->columns == 0)
			putchar('\n');
		free(t->cells[i].text);
	}
	free(width);
	free(t->cells);
	free(t);
}

int
show_colours(void)
{
	static int known, on;

	if (!known) {
		const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

		on = isatty(STDOUT_FILENO) && (no == NULL || *no == '\0') && term != NULL &&
		     strcmp(term, "dumb") != 0;
		known = 1;
	}
	return on;
}

char *
show_dump(const json_t *v, size_t flags)
{
	/* On a terminal all but visible ASCII is escaped: it may be the text of a sandbox. */
	int safe = isatty(STDOUT_FILENO);
	char *text = json_dumps(v, flags | JSON_ENCODE_ANY | (safe ? JSON_ENSURE_ASCII : 0)), *out;
	size_t n = 0;

	if (text == NULL)
		fatalx("JSON cannot be written");
	if (!safe || strchr(text, '\x7f') == NULL)
		return text;
	/* DEL is the one that the encoder leaves. */
	if ((out = malloc(strlen(text) * 6 + 1)) == NULL)
		fatal("JSON");
	for (const char *p = text; *p != '\0'; p++) {
		if (*p == '\x7f')
			n += (size_t)sprintf(out + n, "\\u007f");
		else
			out[n++] = *p;
	}
	out[n] = '\0';
	free(text);
	return out;
}

void
show_json(const json_t *v)
{
	char *text;

	if (v == NULL)
		return;
	text = show_dump(v, JSON_INDENT(2));
	puts(text);
	free(text);
}

int
show_write(int fd, const char *p, size_t n)
{
	struct pollfd room = {fd, POLLOUT, 0};

	while (n > 0) {
		ssize_t put = write(fd, p, n);

		/* Whoever shares the pipe or terminal may have made it O_NONBLOCK. */
		if (put == -1 && errno == EAGAIN && poll(&room, 1, -1) != -1)
			continue;
		if (put == -1)
			return -1;
		p += put;
		n -= (size_t)put;
	}
	return 0;
}

int
show_failed(int error)
{
	/* A reader that has gone ends this program as it ends others: silently. */
	if (error == EPIPE) {
		signal(SIGPIPE, SIG_DFL);
		raise(SIGPIPE);
	}
	fprintf(stderr, "agent-sandbox: standard output: %s\n", strerror(error));
	return 1;
}

int
show_end(void)
{
	return fflush(stdout) == 0 && !ferror(stdout) ? 0 : show_failed(errno);
}
