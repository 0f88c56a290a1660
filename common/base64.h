/* Base64 (RFC 4648): whole texts in, pieces out. Pure. */
#ifndef COMMON_BASE64_H
#define COMMON_BASE64_H

#include <stddef.h>
#include <stdint.h>

/*
 * Decodes; padding may be there or be missing, blanks may not. url: '-' and '_' instead of '+' and
 * '/'. out holds n * 3 / 4 + 1 bytes. Returns 0, or -1.
 */
int base64_decode(const char *p, size_t n, int url, char *out, size_t *len);
/* Encodes n bytes with padding; out holds (n + 2) / 3 * 4 bytes. Returns the length. */
size_t base64_encode(const uint8_t *p, size_t n, char *out);

#endif
