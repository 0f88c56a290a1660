/* Texts that come from inside a sandbox. Pure. */
#ifndef SESSIOND_TEXT_H
#define SESSIOND_TEXT_H

#include <stddef.h>

/* Copies in[0..n) to out as valid UTF-8 without control characters ('?' for what is not); at most
 * size - 1 bytes. */
void text_clean(const char *in, size_t n, char *out, size_t size);

#endif
