/* SHA-256, incremental. Its own file, because only the low-level functions cost no memory per
 * process. */
#ifndef SESSIOND_SHA256_H
#define SESSIOND_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define SHA256_BYTES 32

struct sha256;

struct sha256 *sha256_new(void); /* fatal when out of memory */
void sha256_add(struct sha256 *, const void *, size_t);
void sha256_end(struct sha256 *, uint8_t out[SHA256_BYTES]); /* frees it */
void sha256_free(struct sha256 *);                           /* NULL is allowed */
void sha256_once(const void *, size_t, uint8_t out[SHA256_BYTES]);

#endif
