/*
 * All that libcrypto allocates lies in its secure heap: locked, left out of dumps, between guard
 * pages, wiped when it is freed. By itself the library puts only a key's numbers there, and not
 * what it derives from them to sign faster.
 */
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "keyd/keyd.h"

#define HEAP (4 * 1024 * 1024) /* three generations of sixteen large keys, twice */
#define SMALLEST 32

static void *
get(size_t n, const char *file, int line)
{
	/* Before the heap is made; that is no secret. */
	if (!CRYPTO_secure_malloc_initialized())
		return malloc(n);
	return CRYPTO_secure_malloc(n, file, line);
}

static void
put(void *p, const char *file, int line)
{
	if (p != NULL && CRYPTO_secure_allocated(p))
		CRYPTO_secure_free(p, file, line);
	else
		free(p);
}

static void *
resize(void *p, size_t n, const char *file, int line)
{
	size_t old;
	void *new;

	if (p != NULL && !CRYPTO_secure_allocated(p))
		return realloc(p, n);
	old = p != NULL ? CRYPTO_secure_actual_size(p) : 0;
	if (p != NULL && n <= old)
		return p;
	if ((new = get(n, file, line)) == NULL || p == NULL)
		return new;
	memcpy(new, p, old);
	put(p, file, line);
	return new;
}

void
memory_init(void)
{
	if (CRYPTO_set_mem_functions(get, resize, put) != 1)
		fatalx("libcrypto has memory already");
	switch (CRYPTO_secure_malloc_init(HEAP, SMALLEST)) {
	case 0:
		fatalx("libcrypto gives no memory for keys");
	case 1:
		break;
	default:
		log_warnx("the memory of keys could not be locked, and may be swapped out: raise "
			  "the limit of locked memory to %d KiB",
		    HEAP / 1024);
	}
}
