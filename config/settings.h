/*
 * From names and values to a checked struct config. Pure functions, used by the parent, which has
 * the say, and by doctor, which tells what the parent would say.
 */
#ifndef CONFIG_SETTINGS_H
#define CONFIG_SETTINGS_H

#include <netinet/in.h>
#include <stddef.h>
#include "proto/config.h"

#define CONFIG_ERROR_MAX 512
#define ENGINE_DEFAULT "/var/run/docker.sock"

/* Where a value comes from. A later one wins; the names of the older system lose against ours,
 * wherever they stand. */
enum config_source {
	FROM_DEFAULT,
	FROM_FILE_ALIAS,
	FROM_ENV_ALIAS,
	FROM_FILE,
	FROM_ENV,
	FROM_ARGV
};

struct settings {
	struct config c;
	uint8_t from[CONFIG_KEYS]; /* enum config_source */
	char *engine;              /* absolute path of the engine's socket */
	uint8_t engine_from;
};

/* Everything at its default. Fatal when out of memory, as are the others. */
void config_init(struct settings *);
void config_free(struct settings *);
/*
 * One name and value, of whatever variable: those that do not concern us are ignored, unless they
 * stand in a file. Returns 0, 1 with a warning in text, or -1 with the reason in text (text holds
 * CONFIG_ERROR_MAX bytes).
 */
int
config_put(struct settings *, enum config_source, const char *name, const char *value, char *text);
/* The lines of a file; changes buf. on_warning may be NULL. */
int config_put_lines(struct settings *, char *buf, char *text, void (*on_warning)(const char *));
/* What one value alone cannot show. Returns as config_put(). */
int config_check(struct settings *, char *text);
/* check_front.c: a part of it. */
int config_check_front(const struct config *, char *text);
/* ADDRESS:PORT (of IPv6: [ADDRESS]:PORT) of a loopback interface, in numbers. 0, or -1. */
union loopback {
	struct sockaddr sa;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};
int config_loopback(const char *text, union loopback *, socklen_t *len);
/* For parse.c and check*.c: the reason to text; returns -1. */
int config_refuse(char *text, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/*
 * load.c: the environment, then the file (NULL: none), then the check. What was put before
 * wins. Returns 0, or -1 with the reason in text.
 */
int config_load(struct settings *, const char *file, char *text, void (*on_warning)(const char *));

#endif
