/* Who may ask: compares the digest of the presented key with those of all configured ones. */
#include <openssl/crypto.h>
#include <openssl/sha.h>

#include "common/items.h"
#include "managerd/auth.h"

int
auth_load(struct auth *auth, const char *keys)
{
	const char *key;
	size_t len;

	while ((key = items_next(&keys, &len)) != NULL) {
		if (len < AUTH_KEY_MIN || auth->count == AUTH_KEYS_MAX)
			return -1;
		SHA256((const unsigned char *)key, len, auth->digests[auth->count++]);
	}
	return 0;
}

int
auth_check(const struct auth *auth, int has_key, const uint8_t digest[32])
{
	int found = -1;
	size_t i;

	if (auth->open)
		return AUTH_ANYONE;
	for (i = 0; i < auth->count; i++)
		if (CRYPTO_memcmp(auth->digests[i], digest, 32) == 0)
			found = i;
	return has_key ? found : -1;
}
