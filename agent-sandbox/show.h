/* What people see: tables, times, sizes and names of others, made fit for a terminal. */
#ifndef AGENT_SANDBOX_SHOW_H
#define AGENT_SANDBOX_SHOW_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <jansson.h>

/* A text of others as one line: what is no visible character is shown as \n, \x1b or \u{202e}.
 * Never cut inside of one. Returns out. */
char *show_line(const char *text, char *out, size_t size);
char *show_bytes(const char *p, size_t n, char *out, size_t size);
/* Many lines of others for a terminal: as they are, but for what a terminal would obey. state is 0
 * at first, and holds nothing between calls but for text cut inside of a character. */
void show_text(FILE *, const char *p, size_t n);

/* Columns that a text takes on a terminal. */
int show_width(const char *text);

/* "1.5 GiB", "12 B". Returns buf. */
#define SHOW_SIZE_MAX 16
char *show_size(char buf[SHOW_SIZE_MAX], int64_t bytes);
/* "2h 5m", "14m", "30s"; negative is "0s". Returns buf. */
#define SHOW_TIME_MAX 24
char *show_duration(char buf[SHOW_TIME_MAX], int64_t seconds);
/* Seconds since 1970 of an RFC 3339 time in UTC; -1 if it is none. */
int64_t show_parse_time(const char *text);

/* A table on standard output: headings first, then cells from left to right, row by row. A column
 * whose heading begins with '>' is aligned to the right. */
struct table;
struct table *table_new(const char *const *headings, size_t n);
void table_cell(struct table *, const char *text); /* made safe */
void table_marked(struct table *, const char *text, const char *colour);
void table_print(struct table *); /* and frees it */

/* On a terminal, and NO_COLOR is not set. */
int show_colours(void);
#define COLOUR_GREEN "32"
#define COLOUR_YELLOW "33"
#define COLOUR_BLUE "34"
#define COLOUR_FAINT "2"

/* JSON as text, to be freed; on a terminal as visible ASCII. flags are those of json_dumps(). */
char *show_dump(const json_t *, size_t flags);
/* The answer of the API, for programs; NULL is nothing. */
void show_json(const json_t *);
/* What was written so far is out: 0; or says why not and returns 1. */
int show_end(void);
/* Bytes past stdio, however slow the reader is: 0, or -1 with errno. */
int show_write(int fd, const char *p, size_t n);
/* Standard output failed with this errno: says so and returns 1. */
int show_failed(int error);

#endif
