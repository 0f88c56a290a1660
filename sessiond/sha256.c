/*
 * SHA-256 by libcrypto's low-level functions. The EVP ones load a provider: 1.5 MiB more in each
 * session's process and a start of milliseconds; and linked from the archive, these few functions
 * bring none of libcrypto's relocations.
 */
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

#include <stdlib.h>

#include "common/log.h"
#include "sessiond/sha256.h"

struct sha256 {
	SHA256_CTX ctx;
};

struct sha256 *
sha256_new(void)
{
	struct sha256 *h = malloc(sizeof(*h));

	if (h == NULL)
		fatal("sha256");
	SHA256_Init(&h->ctx);
	return h;
}

void
sha256_add(struct sha256 *h, const void *data, size_t len)
{
	SHA256_Update(&h->ctx, data, len);
}

void
sha256_end(struct sha256 *h, uint8_t out[SHA256_BYTES])
{
	SHA256_Final(out, &h->ctx);
	free(h);
}

void
sha256_free(struct sha256 *h)
{
	free(h);
}

void
sha256_once(const void *data, size_t len, uint8_t out[SHA256_BYTES])
{
	SHA256_CTX ctx;

	SHA256_Init(&ctx);
	SHA256_Update(&ctx, data, len);
	SHA256_Final(out, &ctx);
}
