/*
 * Parses the configuration: the table of proto/config.h, the names of the older system that mean
 * the same, and the engine's address. Pure functions over names and values, so that they are tested
 * and fuzzed alone.
 */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <bsd/string.h>

#include "config/settings.h"
#include "common/log.h"

#define PREFIX "AGENT_SANDBOX_"
#define ALIAS_PREFIX "AGENTBOX_"
#define ENGINE_MAX 1000

struct row {
	const char *name;
	enum config_type type;
	const char *def;
	int64_t min;
	int64_t max;
};

#define ROW(key, type, def, lo, hi, to, doc) {#key, CONFIG_##type, def, lo, hi},
static const struct row rows[CONFIG_KEYS] = {CONFIG_TABLE(ROW)};

/* Set in the same shell by clients and installers: not ours, and no typing mistakes. "*" ends a
 * prefix. */
static const char *const foreign[] = {"API_KEY", "API_KEY_FILE", "URL", "CA_FILE", "CLIENT_CERT",
    "CLIENT_KEY", "VERSION", "INSTALL", "TEST_IMAGE", "MCP_*"};

/* Names of the older system: those that are ours under another name, and one that has no meaning
 * here. */
static const struct {
	const char *name;
	int key; /* -1: no effect */
} aliases[] = {
    {"HOST", CFG_HOST},
    {"PORT", CFG_PORT},
    {"LOG_LEVEL", CFG_LOG_LEVEL},
    {"DOCKER_IMAGE", CFG_DEFAULT_IMAGE},
    {"DOCKER_NODE_IMAGE", CFG_NODE_IMAGE},
    {"DEFAULT_TIMEOUT_SECONDS", CFG_RUN_TIMEOUT_SECONDS},
    {"DEFAULT_MEMORY_MB", CFG_RUN_MEMORY_MB},
    {"MAX_MEMORY_MB", CFG_RUN_MAX_MEMORY_MB},
    {"MAX_OUTPUT_BYTES", CFG_RUN_OUTPUT_BYTES},
    {"EGRESS_ALLOWLIST", CFG_EGRESS_ALLOWLIST},
    {"SNAPSHOT_DIR", -1},
};

int
config_refuse(char *text, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, CONFIG_ERROR_MAX, fmt, ap);
	va_end(ap);
	return -1;
}

static char *
trimmed(const char *value)
{
	size_t n;
	char *s;

	value += strspn(value, " \t\r\n");
	for (n = strlen(value); n > 0 && strchr(" \t\r\n", value[n - 1]) != NULL;)
		n--;
	if ((s = strndup(value, n)) == NULL)
		fatal("configuration");
	return s;
}

static void
forget(char *value)
{
	if (value != NULL)
		explicit_bzero(value, strlen(value));
	free(value);
}

/* Digits, with up to places digits behind a point; in units of 10^-places. -1 when it is not that
 * or too large. */
static int
parse_number(const char *s, int places, int64_t *out)
{
	int64_t n = 0;
	int digits = 0, behind = -1;

	for (; *s != '\0'; s++) {
		if (*s == '.' && places > 0 && behind < 0 && digits > 0) {
			behind = 0;
			continue;
		}
		if (!isdigit((unsigned char)*s) || (behind >= 0 && ++behind > places))
			return -1;
		if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, *s - '0', &n))
			return -1;
		digits++;
	}
	if (digits == 0 || behind == 0)
		return -1;
	for (int i = behind < 0 ? 0 : behind; i < places; i++)
		if (__builtin_mul_overflow(n, 10, &n))
			return -1;
	*out = n;
	return 0;
}

static int
parse_bool(const char *s, int64_t *out)
{
	static const struct {
		const char *word;
		int value;
	} words[] = {{"", 0}, {"0", 0}, {"false", 0}, {"no", 0}, {"off", 0}, {"1", 1}, {"true", 1},
	    {"yes", 1}, {"on", 1}};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcasecmp(s, words[i].word) == 0) {
			*out = words[i].value;
			return 0;
		}
	}
	return -1;
}

/* Sets one row of the table from a trimmed value. */
static int
set_row(struct settings *s, int key, const char *name, const char *value, char *text)
{
	const struct row *row = &rows[key];
	int64_t n = 0;
	int dec = row->type == CONFIG_DEC;

	switch (row->type) {
	case CONFIG_STR:
		if (strlen(value) >= CONFIG_STRING_MAX)
			return config_refuse(
			    text, "%s: is longer than %d bytes", name, CONFIG_STRING_MAX - 1);
		for (const char *p = value; *p != '\0'; p++)
			if (iscntrl((unsigned char)*p))
				return config_refuse(
				    text, "%s: contains a control character", name);
		break;
	case CONFIG_BOOL:
		if (parse_bool(value, &n) == -1)
			return config_refuse(text, "%s: must be true or false", name);
		break;
	case CONFIG_INT:
	case CONFIG_DEC:
		if (parse_number(value, dec ? 9 : 0, &n) == -1 || n < row->min || n > row->max) {
			if (dec)
				return config_refuse(text, "%s: must be a number from %g to %g",
				    name, (double)row->min / 1e9, (double)row->max / 1e9);
			return config_refuse(text, "%s: must be a whole number from %lld to %lld",
			    name, (long long)row->min, (long long)row->max);
		}
		break;
	}
	forget(s->c.str[key]); /* it may be keys */
	if ((s->c.str[key] = strdup(value)) == NULL)
		fatal("configuration");
	s->c.num[key] = n;
	return 0;
}

static int
set_engine(struct settings *s, const char *value, char *text)
{
	const char *path = value;

	if (*value == '\0')
		path = ENGINE_DEFAULT;
	else if (strncmp(value, "unix://", 7) != 0 || value[7] != '/')
		return config_refuse(
		    text, "DOCKER_HOST: only unix:///PATH is supported, not \"%.60s\"", value);
	else
		path += 7;
	if (strlen(path) > ENGINE_MAX)
		return config_refuse(
		    text, "DOCKER_HOST: the path is longer than %d bytes", ENGINE_MAX);
	free(s->engine);
	if ((s->engine = strdup(path)) == NULL)
		fatal("configuration");
	return 0;
}

static int
is_foreign(const char *name)
{
	for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
		const char *star = strchr(foreign[i], '*');

		if (star != NULL ? strncmp(name, foreign[i], star - foreign[i]) == 0
				 : strcmp(name, foreign[i]) == 0)
			return 1;
	}
	return 0;
}

/* A name of the older system, without its prefix: the row it stands for, -1 none, -2 unknown. */
static int
alias_key(const char *name)
{
	for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++)
		if (strcmp(name, aliases[i].name) == 0)
			return aliases[i].key;
	return -2;
}

static int
put_row(struct settings *s, int key, enum config_source from, const char *name, const char *value,
    char *text)
{
	if (from < s->from[key])
		return 0;
	if (set_row(s, key, name, value, text) == -1)
		return -1;
	s->from[key] = from;
	return 0;
}

static int
put_alias(
    struct settings *s, enum config_source from, const char *name, const char *value, char *text)
{
	const char *word = name + strlen(ALIAS_PREFIX);
	int key = alias_key(word);

	if (strcmp(word, "SANDBOX_BACKEND") == 0) {
		if (strcasecmp(value, "docker") == 0 || *value == '\0')
			return 0;
		return config_refuse(text,
		    "%s: \"%.40s\" is not available here; the only backend is docker", name, value);
	}
	if (key < 0) {
		config_refuse(text, "%s: has no effect in this version", name);
		return 1;
	}
	return put_row(
	    s, key, from == FROM_FILE ? FROM_FILE_ALIAS : FROM_ENV_ALIAS, name, value, text);
}

static int
put_trimmed(
    struct settings *s, enum config_source from, const char *name, const char *value, char *text)
{
	const char *word;

	if (strcmp(name, "DOCKER_HOST") == 0) {
		if (from < s->engine_from)
			return 0;
		s->engine_from = from;
		return set_engine(s, value, text);
	}
	if (strncmp(name, ALIAS_PREFIX, strlen(ALIAS_PREFIX)) == 0)
		return put_alias(s, from, name, value, text);
	if (strncmp(name, PREFIX, strlen(PREFIX)) != 0)
		return from == FROM_FILE
			   ? config_refuse(text, "%.80s: is not a name of this program", name)
			   : 0;
	word = name + strlen(PREFIX);
	for (int key = 0; key < CONFIG_KEYS; key++)
		if (strcmp(word, rows[key].name) == 0)
			return put_row(s, key, from, name, value, text);
	if (is_foreign(word))
		return 0;
	return config_refuse(text, "%.80s: there is no such setting", name);
}

void
config_init(struct settings *s)
{
	char text[CONFIG_ERROR_MAX];

	memset(s, 0, sizeof(*s));
	for (int key = 0; key < CONFIG_KEYS; key++)
		if (set_row(s, key, rows[key].name, rows[key].def, text) == -1)
			fatalx("default of %s", text);
	if (set_engine(s, "", text) == -1)
		fatalx("default of %s", text);
}

void
config_free(struct settings *s)
{
	for (int key = 0; key < CONFIG_KEYS; key++)
		forget(s->c.str[key]);
	free(s->engine);
}

int
config_put(
    struct settings *s, enum config_source from, const char *name, const char *value, char *text)
{
	char *v = trimmed(value);
	int r = put_trimmed(s, from, name, v, text);

	forget(v);
	return r;
}

/* One line NAME=VALUE, perhaps with quotes around the value. Empty lines and those with # first are
 * comments. */
static int
put_line(struct settings *s, char *line, char *text)
{
	char *eq, *value;
	size_t n;

	line += strspn(line, " \t");
	line[strcspn(line, "\r")] = '\0';
	if (*line == '\0' || *line == '#')
		return 0;
	if ((eq = strchr(line, '=')) == NULL)
		return config_refuse(text, "is not of the form NAME=VALUE");
	*eq = '\0';
	line[strcspn(line, " \t")] = '\0';
	value = eq + 1 + strspn(eq + 1, " \t");
	for (n = strlen(value); n > 0 && (value[n - 1] == ' ' || value[n - 1] == '\t');)
		value[--n] = '\0';
	if (n >= 2 && (*value == '"' || *value == '\'') && value[n - 1] == *value) {
		value[n - 1] = '\0';
		value++;
	}
	return config_put(s, FROM_FILE, line, value, text);
}

int
config_put_lines(struct settings *s, char *buf, char *text, void (*on_warning)(const char *))
{
	char *line, why[CONFIG_ERROR_MAX];
	int r, n = 0;

	while ((line = strsep(&buf, "\n")) != NULL) {
		n++;
		if ((r = put_line(s, line, why)) == -1)
			return config_refuse(text, "line %d: %.480s", n, why);
		if (r == 1 && on_warning != NULL)
			on_warning(why);
	}
	return 0;
}
