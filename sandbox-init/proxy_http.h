/* The HTTP proxy's requests: CONNECT, and absolute URLs, which become requests to the host itself.
 * Pure. */
#ifndef SANDBOX_INIT_PROXY_HTTP_H
#define SANDBOX_INIT_PROXY_HTTP_H

#include <stddef.h>
#include <stdint.h>

#include "sandbox-init/ask.h"

#define HTTP_HEAD_MAX 16384
/* Room for what http_request() makes of a head of n bytes. */
#define HTTP_HEAD_ROOM(n) (2 * (n) + DIAL_NAME_MAX + 64)

/* The length of the request head at the start of p[0..n) with its empty line; 0: it is not whole.
 */
size_t http_head_end(const uint8_t *p, size_t n);
/*
 * p[0..n) is a whole head. Says what is asked for and, for an absolute URL, writes the head for the
 * host to out[HTTP_HEAD_ROOM(n)] and its length to *out_len (0 for CONNECT). NULL, or what is
 * wrong with the request.
 */
const char *http_request(const uint8_t *p, size_t n, struct ask *, uint8_t *out, size_t *out_len);
/* An answer of our own, with a text of at most DIAL_TEXT_MAX bytes; returns its length. */
#define HTTP_ANSWER_MAX 768
size_t http_answer(
    char out[HTTP_ANSWER_MAX], int status, const char *before, const char *text, size_t text_len);

#endif
