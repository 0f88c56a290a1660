/* The head of the answer to an attach. */
#ifndef DOCKERD_PROXY_HEAD_H
#define DOCKERD_PROXY_HEAD_H

#include <stddef.h>

#define HEAD_MAX 8192 /* bytes; a longer one is none */

/* The status and the length of an HTTP/1.1 head at p[0..n): 1, 0 when more is needed, -1 when it is
 * none. */
int head_parse(const char *p, size_t n, int *status, size_t *len);

#endif
