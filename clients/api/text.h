/* Text of others made fit to show: valid UTF-8, on one line, nothing that a terminal obeys. Pure.
 */
#ifndef CLIENTS_API_TEXT_H
#define CLIENTS_API_TEXT_H

#include <stddef.h>
#include <stdint.h>

/*
 * The character at p, of n > 0 bytes: its length, 1 to 4, and *ch; a byte that is not UTF-8 is one
 * character U+FFFD of length 1.
 */
size_t text_char(const char *p, size_t n, uint32_t *ch);

/* Control characters, and those that turn the direction of writing or hide: what could make a line
 * look like another one. */
int text_is_unsafe(uint32_t ch);

/*
 * n bytes as one line: unsafe characters and invalid bytes become '?', line ends and tabs a blank.
 * out holds size > 0 bytes, gets a NUL, and is never cut inside of a character. Returns the length.
 */
size_t text_line(const char *p, size_t n, char *out, size_t size);

#endif
