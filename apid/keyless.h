/*
 * A provider for OpenSSL whose private keys are elsewhere: an object of it has the public part and
 * the key's number, and signatures come from keyd. It signs whole messages only (what TLS signs),
 * never digests, so that keyd sees what it puts its name to.
 */
#ifndef APID_KEYLESS_H
#define APID_KEYLESS_H

#include <openssl/core_dispatch.h>
#include <openssl/evp.h>
#include <stdint.h>

struct keyless_key {
	EVP_PKEY *public;
	uint32_t generation;
	uint32_t index;
};

/* Loads it and OpenSSL's own; no configuration file is read. Before the confinement. */
void keyless_init(void);
/* The key number index of a generation, whose public part is n bytes of DER. NULL: it is none. */
EVP_PKEY *keyless_new(uint32_t generation, uint32_t index, const uint8_t *der, size_t n);
/* The schemes it can sign with, as OpenSSL's list of signature algorithms; NULL: none. */
const char *keyless_algorithms(const EVP_PKEY *);

/* keyless_sign.c */
extern const OSSL_DISPATCH keyless_signature[];

#endif
