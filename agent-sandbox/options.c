/* Options of a verb as a table (options.h). */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent-sandbox/options.h"
#include "agent-sandbox/show.h"
#include "common/log.h"

#define EXIT_USE_OF_COMMAND 125

struct common_options common_options;

static const struct option_row common_rows[] = {
    {"url", 0, OPTION_TEXT, &common_options.api.url, "URL", "the server (else AGENT_SANDBOX_URL)"},
    {"key-file", 0, OPTION_TEXT, &common_options.api.key_file, "FILE",
	"the key is in this file (else AGENT_SANDBOX_API_KEY)"},
    {"cacert", 0, OPTION_TEXT, &common_options.api.ca_file, "FILE",
	"trust only the CAs in this file (else AGENT_SANDBOX_CA_FILE)"},
    {"cert", 0, OPTION_TEXT, &common_options.api.cert, "FILE",
	"show this client certificate (else AGENT_SANDBOX_CLIENT_CERT)"},
    {"cert-key", 0, OPTION_TEXT, &common_options.api.cert_key, "FILE",
	"its private key (else AGENT_SANDBOX_CLIENT_KEY)"},
    {"json", 0, OPTION_FLAG, &common_options.json, NULL, "print JSON: the API's own answer"},
    {0},
};

static void
print_row(const struct option_row *o)
{
	char left[64];
	int n = 0;

	if (o->letter != 0)
		n = snprintf(left, sizeof(left), "-%c, ", o->letter);
	snprintf(left + n, sizeof(left) - (size_t)n, "--%s%s%s", o->name,
	    o->value != NULL ? " " : "", o->value != NULL ? o->value : "");
	printf("  %-24s  %s\n", left, o->help);
}

void
options_help(const struct usage *u)
{
	printf("usage: agent-sandbox %s%s%s%s\n\n%s\n", u->name,
	    u->options != NULL ? " [OPTIONS]" : "", *u->arguments != '\0' ? " " : "", u->arguments,
	    u->what);
	if (u->notes != NULL)
		printf("%s\n", u->notes);
	printf("\nOptions:\n");
	for (const struct option_row *o = u->options; o != NULL && o->name != NULL; o++)
		print_row(o);
	for (const struct option_row *o = common_rows; o->name != NULL; o++)
		if (!u->local || o->to == &common_options.json)
			print_row(o);
}

void
options_wrong(const struct usage *u, const char *fmt, ...)
{
	char text[1024], line[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	show_line(text, line, sizeof(line));
	if (u != NULL)
		fprintf(stderr,
		    "agent-sandbox %s: %s\nusage: agent-sandbox %s%s%s%s\n\"agent-sandbox %s "
		    "--help\" says more\n",
		    u->name, line, u->name, u->options != NULL ? " [OPTIONS]" : "",
		    *u->arguments != '\0' ? " " : "", u->arguments, u->name);
	else
		fprintf(stderr, "agent-sandbox: %s\n\"agent-sandbox --help\" lists what there is\n",
		    line);
	/* Of a verb that runs commands the lower ones are the commands'. */
	exit(u != NULL && u->command ? EXIT_USE_OF_COMMAND : EXIT_CONFIG);
}

/* A number that fills text up to a unit; *unit is 0 if there is none. */
static int
number_and_unit(const char *text, double *number, char *unit)
{
	char *end;

	if (!isdigit((unsigned char)*text) && *text != '.')
		return -1;
	if (strcspn(text, "xXeEpPnN") != strlen(text))
		return -1;
	errno = 0;
	*number = strtod(text, &end);
	if (end == text || errno != 0 || !isfinite(*number))
		return -1;
	*unit = *end;
	return *end == '\0' || end[1] == '\0' ? 0 : -1;
}

int
options_seconds(const char *text, double *seconds)
{
	static const struct {
		char unit;
		double seconds;
	} units[] = {{0, 1}, {'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
	double number;
	char unit;

	if (number_and_unit(text, &number, &unit) == -1 || number <= 0 || number > 1e9)
		return -1;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (unit == units[i].unit) {
			*seconds = number * units[i].seconds;
			return 0;
		}
	}
	return -1;
}

int
options_megabytes(const char *text, long long *mb)
{
	double number;
	char unit;

	if (number_and_unit(text, &number, &unit) == -1 || number <= 0 || number > 1e9)
		return -1;
	if (tolower(unit) == 'g')
		number *= 1024;
	else if (unit != '\0' && tolower(unit) != 'm')
		return -1;
	*mb = (long long)number;
	return (double)*mb == number ? 0 : -1;
}

static void
list_add(struct texts *list, const char *value)
{
	const char **v = realloc(list->v, (list->n + 1) * sizeof(*v));

	if (v == NULL)
		fatal("options");
	v[list->n] = value;
	list->v = v;
	list->n++;
}

static void
store(const struct usage *u, const struct option_row *o, const char *value)
{
	char unit, *end;
	double number;

	switch (o->kind) {
	case OPTION_FLAG:
		*(int *)o->to = 1;
		return;
	case OPTION_TEXT:
		*(const char **)o->to = value;
		return;
	case OPTION_WORD:
		for (const char *p = value; *p != '\0' || p == value; p++)
			if (*p <= ' ' || *p >= 0x7f)
				options_wrong(u,
				    "--%s: %s is not a word of letters, digits and signs", o->name,
				    value);
		*(const char **)o->to = value;
		return;
	case OPTION_LIST:
		list_add(o->to, value);
		return;
	case OPTION_NUMBER:
		if (number_and_unit(value, &number, &unit) == -1 || unit != 0 || number <= 0)
			options_wrong(u, "--%s: %s is not a number above 0", o->name, value);
		*(double *)o->to = number;
		return;
	case OPTION_WHOLE:
		errno = 0;
		*(long long *)o->to = strtoll(value, &end, 10);
		if (errno != 0 || !isdigit((unsigned char)*value) || *end != '\0' ||
		    *(long long *)o->to < 1)
			options_wrong(u, "--%s: %s is not a whole number from 1", o->name, value);
		return;
	case OPTION_MB:
		if (options_megabytes(value, o->to) == -1)
			options_wrong(
			    u, "--%s: %s is not a size in MiB such as 512 or 2g", o->name, value);
		return;
	case OPTION_SECONDS:
		if (options_seconds(value, o->to) == -1)
			options_wrong(
			    u, "--%s: %s is not a time such as 90, 15m or 2h", o->name, value);
		return;
	}
}

static const struct option_row *
find_long(const struct option_row *rows, const char *name, size_t n)
{
	for (; rows != NULL && rows->name != NULL; rows++)
		if (strncmp(rows->name, name, n) == 0 && rows->name[n] == '\0')
			return rows;
	return NULL;
}

static const struct option_row *
find_letter(const struct option_row *rows, char letter)
{
	for (; rows != NULL && rows->name != NULL; rows++)
		if (rows->letter == letter)
			return rows;
	return NULL;
}

/* "--name", "--name=value" or "--name value" at argv[0]. Returns how many words it took. */
static int
take_long(const struct usage *u, int argc, char **argv)
{
	const char *name = argv[0] + 2, *value = strchr(name, '=');
	size_t n = value != NULL ? (size_t)(value - name) : strlen(name);
	const struct option_row *o = u != NULL ? find_long(u->options, name, n) : NULL;

	if (o == NULL)
		o = find_long(common_rows, name, n);
	if (o == NULL)
		options_wrong(u, "there is no option --%.*s", (int)n, name);
	if (o->kind == OPTION_FLAG) {
		if (value != NULL)
			options_wrong(u, "--%s takes no value", o->name);
		store(u, o, NULL);
		return 1;
	}
	if (value != NULL) {
		store(u, o, value + 1);
		return 1;
	}
	if (argc < 2)
		options_wrong(u, "--%s: its %s is missing", o->name, o->value);
	store(u, o, argv[1]);
	return 2;
}

/* "-x", "-xy", "-x value" or "-xvalue". */
static int
take_letters(const struct usage *u, int argc, char **argv)
{
	for (const char *p = argv[0] + 1; *p != '\0'; p++) {
		const struct option_row *o = u != NULL ? find_letter(u->options, *p) : NULL;

		if (o == NULL)
			options_wrong(u, "there is no option -%c", *p);
		if (o->kind == OPTION_FLAG) {
			store(u, o, NULL);
			continue;
		}
		if (p[1] != '\0') {
			store(u, o, p + 1);
			return 1;
		}
		if (argc < 2)
			options_wrong(u, "-%c: its %s is missing", *p, o->value);
		store(u, o, argv[1]);
		return 2;
	}
	return 1;
}

static int
is_help(const char *word)
{
	return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

char **
options_read(const struct usage *u, int argc, char **argv, int *n)
{
	int at = 0, found = 0, only_words = 0;
	char **words = argv;

	while (at < argc) {
		char *word = argv[at];

		if (only_words || *word != '-' || word[1] == '\0' || (u->command && found >= 2)) {
			words[found++] = word;
			at++;
			only_words |= u->command && found >= 2;
		} else if (strcmp(word, "--") == 0) {
			only_words = 1;
			at++;
		} else if (is_help(word)) {
			options_help(u);
			exit(show_end());
		} else if (word[1] == '-') {
			at += take_long(u, argc - at, argv + at);
		} else {
			at += take_letters(u, argc - at, argv + at);
		}
	}
	words[found] = NULL;
	if (found < u->least)
		options_wrong(u, "%s is missing", found == 0 ? "an argument" : "the last argument");
	if (u->most != -1 && found > u->most)
		options_wrong(u, "%s is one argument too many", words[u->most]);
	*n = found;
	return words;
}

int
options_read_common(int argc, char **argv)
{
	int at = 0;

	while (at < argc && strncmp(argv[at], "--", 2) == 0 && argv[at][2] != '\0' &&
	       !is_help(argv[at]) && strcmp(argv[at], "--version") != 0)
		at += take_long(NULL, argc - at, argv + at);
	return at;
}
