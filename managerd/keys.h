/*
 * Who asks: managerd alone knows the keys, as SHA-256 digests: those of AGENT_SANDBOX_API_KEYS,
 * which all belong to one tenant, and those of the key file, which may be replaced at any time.
 */
#ifndef MANAGERD_KEYS_H
#define MANAGERD_KEYS_H

#include <stddef.h>
#include <stdint.h>

#include "common/keys_file.h"

#define KEYS_SCOPES_ALL ((1 << KEYS_SCOPE_BITS) - 1)
#define KEYS_TEXT_MIN 16 /* characters of a key in AGENT_SANDBOX_API_KEYS */

struct m_ask;
struct tenant;

struct key {
	struct keys_key k; /* as it was read */
	struct tenant *tenant;
	uint8_t scopes;  /* with what admin stands for */
	uint32_t serial; /* the same for as long as name, tenant, digest and certificate are */
	uint32_t next;   /* in its chain */
};

/* Why a request is not let in; the client learns none of it. */
enum keys_verdict {
	KEYS_GOOD,
	KEYS_NONE,    /* none was presented, or something malformed */
	KEYS_UNKNOWN, /* it is nobody's */
	KEYS_SUBJECT, /* nor is the certificate */
	KEYS_REVOKED, /* it was somebody's before the file was read again */
	KEYS_EXPIRED,
	KEYS_ADDRESS, /* not from there */
	KEYS_VERDICTS
};
const char *keys_verdict_text(enum keys_verdict);

/* Of AGENT_SANDBOX_API_KEYS: a comma-separated list; spaces around a key and empty entries do not
 * count. 0, or -1: too short or too many. */
int keys_load(const char *list);
/* Nobody needs a key (INSECURE_NO_AUTH). */
void keys_open(void);
size_t keys_count(void);
/* Instead of those of the key file before: 0, or -1 and why; then all is as it was. */
int keys_replace(const char *text, size_t n, char *why, size_t size);

/*
 * Whose key it is. *key is set when there is one, whatever the verdict. Compares all of a digest
 * in the same time; which one is compared depends on a secret.
 */
enum keys_verdict keys_check(const struct m_ask *, int64_t now_s, const struct key **key);
/* Whether the key with this serial is still one, from this address and with this scope. */
int keys_still(uint32_t serial, const uint8_t addr[16], uint8_t scope, int64_t now_s);
/* When, in seconds since 1970, the next one expires that has not yet; KEYS_NEVER. */
int64_t keys_next_expiry(int64_t now_s);

#endif
