/* Lines out of a stream of bytes that comes in pieces of any size. Pure. */
#ifndef CLIENTS_API_LINES_H
#define CLIENTS_API_LINES_H

#include <stddef.h>

struct lines {
	char *buf; /* the line that is not whole yet */
	size_t n, room;
	size_t max;  /* bytes of the longest line that is taken */
	int passing; /* the rest of a longer one is passed over */
};

/*
 * One line without its end ("\n" or "\r\n"), borrowed; line NULL: it was too long. Those of blanks
 * are left out. Anything but 0 ends lines_feed() with that value, and the stream.
 */
typedef int lines_line(void *arg, const char *line, size_t n);

void lines_init(struct lines *, size_t max);
void lines_free(struct lines *);
/* 0, or what a call of line returned. No memory is fatal. */
int lines_feed(struct lines *, const char *data, size_t n, lines_line *line, void *arg);
/* At the end of the stream: what stands there without an end of line, as lines_feed(). */
int lines_end(struct lines *, lines_line *line, void *arg);

#endif
