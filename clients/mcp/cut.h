/*
 * What a command prints, or a file holds, kept in bounded memory: its beginning and its end. And
 * the text made of it, which fits the context of a model. Pure.
 */
#ifndef CLIENTS_MCP_CUT_H
#define CLIENTS_MCP_CUT_H

#include <stddef.h>
#include <stdint.h>

struct cut {
	size_t half; /* bytes kept of the beginning, and at least as many of the end */
	uint64_t total;
	char *head, *tail;
	size_t head_n, head_room, tail_n, tail_room;
};

/* max: bytes that are given back whole. */
void cut_init(struct cut *, size_t max);
void cut_free(struct cut *);
void cut_add(struct cut *, const char *, size_t n);

/*
 * All of it, or, over budget bytes (at most max), beginning and end with a note between them that
 * says how much is missing. Always UTF-8: bytes that are none become U+FFFD; characters are never
 * split, lines rarely. To be freed; *n is its length (a NUL follows, and may be in it), *omitted
 * the bytes left out (may be NULL).
 */
char *cut_text(const struct cut *, size_t budget, size_t *n, uint64_t *omitted);

#endif
