/* Session tickets (tls.h): sealed with a key that serves for an hour and opens for another. */
#include <openssl/core_names.h>
#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <bsd/string.h>

#include "apid/tls.h"
#include "common/log.h"

#define SERVES_SECONDS 3600

struct ticket_key {
	unsigned char name[16], cipher[32], mac[32];
	time_t since;
	int is_set;
};

static struct ticket_key current, previous;

static void
make_key(struct ticket_key *key, time_t now)
{
	if (RAND_bytes(key->name, sizeof(key->name)) != 1 ||
	    RAND_priv_bytes(key->cipher, sizeof(key->cipher)) != 1 ||
	    RAND_priv_bytes(key->mac, sizeof(key->mac)) != 1)
		fatalx("no random bytes");
	key->since = now;
	key->is_set = 1;
}

static void
rotate(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	if (current.is_set && now.tv_sec - current.since < SERVES_SECONDS)
		return;
	if (current.is_set && now.tv_sec - current.since < 2 * SERVES_SECONDS)
		previous = current;
	else
		explicit_bzero(&previous, sizeof(previous));
	make_key(&current, now.tv_sec);
}

static int
set_up(const struct ticket_key *key, unsigned char *iv, EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac,
    int encrypt)
{
	char digest[] = "SHA256";
	OSSL_PARAM params[] = {
	    OSSL_PARAM_octet_string(
		OSSL_MAC_PARAM_KEY, (void *)(uintptr_t)key->mac, sizeof(key->mac)),
	    OSSL_PARAM_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, sizeof(digest) - 1),
	    OSSL_PARAM_END,
	};

	return EVP_CipherInit_ex(cipher, EVP_aes_256_cbc(), NULL, key->cipher, iv, encrypt) == 1 &&
	       EVP_MAC_CTX_set_params(mac, params) == 1;
}

int
tls_ticket(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher,
    EVP_MAC_CTX *mac, int encrypt)
{
	(void)ssl;
	rotate();
	if (encrypt) {
		if (RAND_bytes(iv, EVP_CIPHER_get_iv_length(EVP_aes_256_cbc())) != 1)
			return -1;
		memcpy(name, current.name, sizeof(current.name));
		return set_up(&current, iv, cipher, mac, 1) ? 1 : -1;
	}
	if (memcmp(name, current.name, sizeof(current.name)) == 0)
		return set_up(&current, iv, cipher, mac, 0) ? 1 : -1;
	/* 2: it is good, and the client gets a new one. */
	if (previous.is_set && memcmp(name, previous.name, sizeof(previous.name)) == 0)
		return set_up(&previous, iv, cipher, mac, 0) ? 2 : -1;
	return 0;
}

void
tls_ticket_forget(void)
{
	explicit_bzero(&current, sizeof(current));
	explicit_bzero(&previous, sizeof(previous));
}
