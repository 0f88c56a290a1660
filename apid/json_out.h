/* Writing JSON into an evbuffer, piece by piece, from bytes that need not be UTF-8. */
#ifndef APID_JSON_OUT_H
#define APID_JSON_OUT_H

#include <stddef.h>
#include <stdint.h>

struct evbuffer;

/* Bytes of a character that is not complete yet. All zero at the start of a text. */
struct utf8 {
	uint8_t have[4];
	uint8_t n;
};

/*
 * Appends p[0..n) as the inside of a JSON string. Every sequence that is not UTF-8 becomes U+FFFD;
 * up to three bytes of a character that is not complete wait in the state for the next piece.
 * Returns how many bytes were written.
 */
size_t json_escape(struct evbuffer *, struct utf8 *, const void *p, size_t n);
/* The end of the text: what is incomplete becomes U+FFFD. */
size_t json_escape_end(struct evbuffer *, struct utf8 *);
/* A whole string, quotes included. */
void out_string(struct evbuffer *, const void *p, size_t n);
void out_cstring(struct evbuffer *, const char *);

/* Base64 over pieces. All zero at the start. */
struct base64 {
	uint8_t have[3];
	uint8_t n;
};
size_t out_base64(struct evbuffer *, struct base64 *, const void *p, size_t n);
size_t out_base64_end(struct evbuffer *, struct base64 *);

/* A number of 1e-9 units as a decimal number with at least one decimal: 1.0, 0.25. */
void out_nano(struct evbuffer *, int64_t);

#endif
