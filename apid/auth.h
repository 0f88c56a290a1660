/* The key that a request presents. apid has no list of keys: it hands on the digest and managerd
 * decides. Pure. */
#ifndef APID_AUTH_H
#define APID_AUTH_H

#include "apid/head.h"

#define KEY_MAX 1024 /* bytes of a key; longer ones are wrong */

/*
 * Finds the key in "Authorization: Bearer KEY", "Authorization: Basic base64(anything:KEY)" or
 * "X-API-Key: KEY". Returns 1 and its SHA-256, or 0 when there is none, a malformed one, or two
 * that differ.
 */
int auth_key(const struct head *, uint8_t digest[32]);

/* SHA-256 of p[0..n). */
void sha256(const void *p, size_t n, uint8_t digest[32]);

#endif
