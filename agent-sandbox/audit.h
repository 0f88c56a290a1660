/* What the parts of the verb audit offer each other: its files, their lines, what is signed. */
#ifndef AGENT_SANDBOX_AUDIT_H
#define AGENT_SANDBOX_AUDIT_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "agent-sandbox/options.h"
#include "common/audit_line.h"

extern struct audit_options {
	const char *file;    /* settings */
	const char *since;   /* NULL: from the beginning */
	int64_t since_us;    /* INT64_MIN: from the beginning */
	struct texts keys;   /* verify: public keys; show: names */
	const char *sandbox; /* an id, or its beginning */
	const char *action;
	long long lines;
	int follow;
} audit_options;

/* Sub-verbs; arguments are what stands behind. */
int audit_verify(char **files, size_t n);
int audit_tail(char **files, size_t n);
int audit_show(char **files, size_t n);

/* audit_files.c: the files in their order. folder: of the data directory, or NULL when files were
 * named. */
struct audit_files {
	char *folder;
	char **paths;
	size_t n;
};
/* Those named, or those of the data directory. What is wrong is said, and the program ends. */
void audit_files_find(struct audit_files *, char **named, size_t n);
void audit_files_free(struct audit_files *);

/* Lines of one file, each without its newline, good until the next is read. */
struct audit_lines {
	const char *path;
	int fd;
	char *buf;
	size_t at, have;
	unsigned long long number; /* of the line that was read last; the first is 1 */
};
/* Of the i-th of the files. What is wrong is said, and the program ends. */
void audit_lines_open(struct audit_lines *, const struct audit_files *, size_t i);
enum audit_read { AUDIT_LINE, AUDIT_END, AUDIT_TORN, AUDIT_LONG };
enum audit_read audit_lines_next(struct audit_lines *, const char **line, size_t *len);
void audit_lines_close(struct audit_lines *);

/* The member "time" of a line; -1 if there is none that is good. */
int64_t audit_line_time(const char *line, size_t len);

#endif
