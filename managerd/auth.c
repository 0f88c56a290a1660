/* Who may ask: compares the digest of the presented key with those of all configured ones. */
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <string.h>

#include "managerd/auth.h"

int
auth_load(struct auth *auth, const char *keys)
{
	const char *p = keys, *end;
	size_t len;

	for (; *p != '\0'; p = *end == ',' ? end + 1 : end) {
		end = p + strcspn(p, ",");
		while (p < end && (*p == ' ' || *p == '\t'))
			p++;
		for (len = end - p; len > 0 && (p[len - 1] == ' ' || p[len - 1] == '\t');)
			len--;
		if (len == 0)
			continue;
		if (len < AUTH_KEY_MIN || auth->count == AUTH_KEYS_MAX)
			return -1;
		SHA256((const unsigned char *)p, len, auth->digests[auth->count++]);
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
