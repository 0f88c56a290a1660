/* Options of a verb as a table: from it come the reading of the command line and the help. */
#ifndef AGENT_SANDBOX_OPTIONS_H
#define AGENT_SANDBOX_OPTIONS_H

#include <stddef.h>

#include "clients/api/api.h"

enum option_kind {
	OPTION_FLAG,    /* int: set to 1 */
	OPTION_TEXT,    /* const char * */
	OPTION_WORD,    /* const char *: visible ASCII, for a header */
	OPTION_LIST,    /* struct texts: may stand several times */
	OPTION_NUMBER,  /* double above 0 */
	OPTION_WHOLE,   /* long long, 1 or more */
	OPTION_MB,      /* long long: MiB; "2g" is 2048 */
	OPTION_SECONDS, /* double: seconds; "90", "1.5", "15m", "2h", "1d" */
};

struct texts {
	const char **v;
	size_t n;
};

struct option_row {
	const char *name; /* without "--" */
	char letter;      /* 0: none */
	enum option_kind kind;
	void *to;
	const char *value; /* what it takes, in the help; NULL for a flag */
	const char *help;
};

/* What stands on the command line of every verb, and for how the verb is used. */
struct usage {
	const char *name;
	const char *arguments;            /* "SANDBOX [NAME]" */
	const char *what;                 /* one sentence */
	const struct option_row *options; /* ends with a row without a name; NULL: none */
	int least, most;                  /* arguments; most -1: no limit */
	int command;                      /* from the second argument on nothing is an option */
	const char *notes;                /* more for the help, or NULL */
	int local;                        /* it does not ask the server */
};

/*
 * Sorts argv (of argc, without the verb) into options and arguments; options may stand anywhere
 * before "--". Answers --help, or what is wrong, and exits. Returns the arguments, which end with a
 * NULL; *n is their number.
 */
char **options_read(const struct usage *, int argc, char **argv, int *n);
/* Options before the verb: how many of argv were taken. */
int options_read_common(int argc, char **argv);
void options_help(const struct usage *);
/* Says what is wrong with the use of the verb, and exits with EXIT_CONFIG. */
void options_wrong(const struct usage *, const char *fmt, ...)
    __attribute__((format(printf, 2, 3), noreturn));

/* Pure; 0, or -1. */
int options_seconds(const char *text, double *seconds);
int options_megabytes(const char *text, long long *mb);

/* Those of every verb that asks the server. */
extern struct common_options {
	struct api_options api;
	int json;
} common_options;

#endif
