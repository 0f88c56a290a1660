/* Keeps the keys: a table that is made anew whenever the key file is read. */
#include <bsd/stdlib.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/items.h"
#include "common/log.h"
#include "managerd/keys.h"
#include "managerd/tenant.h"
#include "proto/apid_managerd.h"

#define CHAINS 4096
#define NOBODY UINT32_MAX
#define RETIRED_MAX 1024

struct ring {
	struct key *keys;
	size_t count, fixed; /* the first ones are of AGENT_SANDBOX_API_KEYS */
	uint32_t heads[CHAINS];
};

static struct ring ring;
static uint64_t secret;
static uint32_t last_serial;
static const struct key *anyone; /* INSECURE_NO_AUTH */

/* Keys that a new file did not have any more, for the audit log. */
static struct key retired[RETIRED_MAX];
static size_t nretired;

const char *
keys_verdict_text(enum keys_verdict verdict)
{
	static const char *const texts[KEYS_VERDICTS] = {"", "no key", "unknown key",
	    "unknown certificate", "revoked key", "expired key", "address not allowed"};

	return texts[verdict];
}

static uint32_t
chain_of(const uint8_t digest[32])
{
	uint64_t first;

	memcpy(&first, digest, sizeof(first));
	return (uint32_t)(((first ^ secret) * (secret | 1)) >> 40) % CHAINS;
}

static void
ring_index(struct ring *r)
{
	uint32_t i, chain;

	while (secret == 0)
		arc4random_buf(&secret, sizeof(secret));
	for (i = 0; i < CHAINS; i++)
		r->heads[i] = NOBODY;
	for (i = 0; i < r->count; i++) {
		if (!r->keys[i].k.has_digest)
			continue;
		chain = chain_of(r->keys[i].k.digest);
		r->keys[i].next = r->heads[chain];
		r->heads[chain] = i;
	}
}

static const struct key *
ring_find(const struct ring *r, const uint8_t digest[32])
{
	const struct key *found = NULL;
	uint32_t i;

	if (r->count == 0)
		return NULL;
	for (i = r->heads[chain_of(digest)]; i != NOBODY; i = r->keys[i].next)
		if (CRYPTO_memcmp(r->keys[i].k.digest, digest, 32) == 0)
			found = &r->keys[i];
	return found;
}

static const struct key *
ring_subject(const struct ring *r, const char *subject)
{
	size_t i;

	for (i = 0; i < r->count; i++)
		if (r->keys[i].k.certificate[0] != '\0' &&
		    strcmp(r->keys[i].k.certificate, subject) == 0)
			return &r->keys[i];
	return NULL;
}

static struct key *
ring_more(struct ring *r, size_t n)
{
	struct key *more = recallocarray(r->keys, r->count, r->count + n, sizeof(*more));

	if (more == NULL)
		fatal("keys");
	r->keys = more;
	more += r->count;
	r->count += n;
	return more;
}

int
keys_load(const char *list)
{
	struct key *key;
	const char *text;
	size_t len;
	int q;

	while ((text = items_next(&list, &len)) != NULL) {
		if (len < KEYS_TEXT_MIN || ring.count == KEYS_MAX)
			return -1;
		key = ring_more(&ring, 1);
		snprintf(key->k.name, sizeof(key->k.name), "key%zu", ring.count);
		SHA256((const unsigned char *)text, len, key->k.digest);
		key->k.has_digest = 1;
		key->k.expires_s = KEYS_NEVER;
		for (q = 0; q < KEYS_QUOTAS; q++)
			key->k.quota[q] = KEYS_NO_QUOTA;
		key->tenant = tenant_default();
		key->scopes = KEYS_SCOPES_DEFAULT;
		key->serial = ++last_serial;
	}
	ring.fixed = ring.count;
	ring_index(&ring);
	return 0;
}

void
keys_open(void)
{
	static struct key nobody;

	nobody.k.expires_s = KEYS_NEVER;
	nobody.tenant = tenant_default();
	nobody.scopes = KEYS_SCOPES_DEFAULT;
	anyone = &nobody;
}

size_t
keys_count(void)
{
	return ring.count;
}

static int
same(const struct key *a, const struct key *b)
{
	return strcmp(a->k.name, b->k.name) == 0 && a->tenant == b->tenant &&
	       a->k.has_digest == b->k.has_digest &&
	       CRYPTO_memcmp(a->k.digest, b->k.digest, 32) == 0 &&
	       strcmp(a->k.certificate, b->k.certificate) == 0;
}

static const struct key *
ring_same(const struct ring *r, const struct key *key)
{
	size_t i;

	for (i = 0; i < r->count; i++)
		if (same(&r->keys[i], key))
			return &r->keys[i];
	return NULL;
}

/* A key of the file with the name or digest of one in AGENT_SANDBOX_API_KEYS. */
static int
clash(const struct keys_file *file, char *why, size_t size)
{
	size_t i, j;

	for (i = 0; i < file->count; i++) {
		const struct keys_key *k = &file->keys[i];

		for (j = 0; j < ring.fixed; j++) {
			if (strcmp(ring.keys[j].k.name, k->name) != 0 &&
			    (!k->has_digest || memcmp(ring.keys[j].k.digest, k->digest, 32) != 0))
				continue;
			snprintf(why, size, "line %u: %s %s in AGENT_SANDBOX_API_KEYS", k->line,
			    k->name,
			    strcmp(ring.keys[j].k.name, k->name) == 0 ? "is the name of a key"
								      : "has the digest of a key");
			return -1;
		}
	}
	return 0;
}

static void
take(struct key *key, const struct keys_key *k)
{
	const struct key *before;
	int q;

	key->k = *k;
	key->tenant = tenant_get(k->tenant);
	key->scopes = k->scopes & SCOPE_ADMIN ? KEYS_SCOPES_ALL : k->scopes;
	before = ring_same(&ring, key);
	key->serial = before != NULL ? before->serial : ++last_serial;
	for (q = 0; q < KEYS_QUOTAS; q++)
		if (k->quota[q] != KEYS_NO_QUOTA)
			key->tenant->quota[q] = k->quota[q];
}

static void
retire(const struct ring *fresh)
{
	size_t i;

	for (i = ring.fixed; i < ring.count; i++)
		if (ring_same(fresh, &ring.keys[i]) == NULL)
			retired[nretired++ % RETIRED_MAX] = ring.keys[i];
}

int
keys_replace(const char *text, size_t n, char *why, size_t size)
{
	struct ring fresh = {.fixed = ring.fixed};
	struct keys_file file;
	struct key *at;
	size_t i;

	if (keys_file_parse(text, n, &file, why, size) == -1)
		return -1;
	if (clash(&file, why, size) == -1) {
		keys_file_free(&file);
		return -1;
	}
	tenants_unlimited();
	at = ring_more(&fresh, ring.fixed + file.count + 1); /* one more: never nothing */
	fresh.count--;
	if (ring.fixed > 0)
		memcpy(at, ring.keys, ring.fixed * sizeof(*at));
	for (i = 0; i < file.count; i++)
		take(&at[ring.fixed + i], &file.keys[i]);
	keys_file_free(&file);
	ring_index(&fresh);
	retire(&fresh);
	free(ring.keys);
	ring = fresh;
	return 0;
}

/* Of two with the same digest the one that was retired last; each costs the same. */
static const struct key *
find_retired(const uint8_t digest[32])
{
	size_t i, n = nretired < RETIRED_MAX ? nretired : RETIRED_MAX;
	const struct key *found = NULL;

	for (i = 0; i < n; i++)
		if (retired[i].k.has_digest && CRYPTO_memcmp(retired[i].k.digest, digest, 32) == 0)
			found = &retired[i];
	return found;
}

static enum keys_verdict
judge(const struct key *key, const uint8_t addr[16], int64_t now_s)
{
	if (now_s >= key->k.expires_s)
		return KEYS_EXPIRED;
	return key->k.nfrom == 0 || keys_from_allows(&key->k, addr) ? KEYS_GOOD : KEYS_ADDRESS;
}

enum keys_verdict
keys_check(const struct m_ask *ask, int64_t now_s, const struct key **key)
{
	if ((*key = anyone) != NULL)
		return KEYS_GOOD;
	if (!ask->has_key && ask->subject[0] == '\0')
		return KEYS_NONE;
	if (!ask->has_key)
		*key = ring_subject(&ring, ask->subject);
	else
		*key = ring_find(&ring, ask->key);
	if (*key != NULL)
		return judge(*key, ask->addr, now_s);
	if (!ask->has_key)
		return KEYS_SUBJECT;
	return (*key = find_retired(ask->key)) != NULL ? KEYS_REVOKED : KEYS_UNKNOWN;
}

int
keys_still(uint32_t serial, const uint8_t addr[16], uint8_t scope, int64_t now_s)
{
	size_t i;

	if (anyone != NULL)
		return 1;
	for (i = 0; i < ring.count; i++)
		if (ring.keys[i].serial == serial)
			return (ring.keys[i].scopes & scope) == scope &&
			       judge(&ring.keys[i], addr, now_s) == KEYS_GOOD;
	return 0;
}

int64_t
keys_next_expiry(int64_t now_s)
{
	int64_t next = KEYS_NEVER;
	size_t i;

	for (i = 0; i < ring.count; i++)
		if (ring.keys[i].k.expires_s > now_s && ring.keys[i].k.expires_s < next)
			next = ring.keys[i].k.expires_s;
	return next;
}
