/* Keys: managerd alone knows them, as SHA-256 digests. */
#ifndef MANAGERD_AUTH_H
#define MANAGERD_AUTH_H

#include <stddef.h>
#include <stdint.h>

#define AUTH_KEYS_MAX 1024
#define AUTH_KEY_MIN 16

struct auth {
	uint8_t digests[AUTH_KEYS_MAX][32];
	size_t count;
	int open; /* INSECURE_NO_AUTH */
};

/* Digests of a comma-separated list; spaces around a key and empty entries do not count. 0, or -1:
 * too short or too many. */
int auth_load(struct auth *, const char *keys);
/* The position of the key (0 …), AUTH_ANYONE when none is needed, or -1. Takes the same time for
 * every digest. */
#define AUTH_ANYONE AUTH_KEYS_MAX
int auth_check(const struct auth *, int has_key, const uint8_t digest[32]);

#endif
