/* Lines of a client out of the bytes of standard input. Pure. */
#ifndef CLIENTS_MCP_INBOX_H
#define CLIENTS_MCP_INBOX_H

#include <stddef.h>

struct inbox {
	char *buf; /* the line that is not whole yet */
	size_t n, room;
	size_t max;  /* bytes of the longest line that is taken */
	int passing; /* the rest of a longer one is thrown away */
};

/* One line without its end, borrowed; line NULL: it was too long. Lines of blanks are left out. */
typedef void inbox_line(void *arg, const char *line, size_t n);

void inbox_init(struct inbox *, size_t max);
void inbox_free(struct inbox *);
void inbox_feed(struct inbox *, const char *, size_t n, inbox_line *line, void *arg);
/* At the end of the input: what stands there without an end of line. */
void inbox_end(struct inbox *, inbox_line *line, void *arg);

#endif
