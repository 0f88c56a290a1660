/* What the files of keyd offer each other: what may be signed, and the keys. */
#ifndef KEYD_KEYD_H
#define KEYD_KEYD_H

#include <stddef.h>
#include <stdint.h>

#include "common/confine.h"
#include "proto/apid_keyd.h"

extern const struct confine keyd_confine;

/*
 * input.c: whether p[0..n) is what a server signs in a handshake: the content of CertificateVerify
 * in TLS 1.3 (RFC 8446, 4.4.3), or of ServerKeyExchange in TLS 1.2 (RFC 8422, 5.4) with P-256,
 * P-384 or X25519. Pure.
 */
enum input { INPUT_NONE, INPUT_TLS13, INPUT_TLS12 };
enum input input_kind(const uint8_t *p, size_t n);

/*
 * keys.c: reads the key of this place from fd; the places of a generation come in order. When the
 * first of a new one comes, one that is not used is forgotten. NULL, or what is wrong with the file
 * (static text).
 */
const char *keys_read(uint32_t generation, uint32_t index, int fd);
/* Forgets this one, or all before this one. */
void keys_forget(uint32_t generation);
void keys_forget_before(uint32_t generation);
/* Writes to out[0..KEY_OUTPUT_MAX). Returns enum key_status. */
uint32_t keys_public(uint32_t generation, uint32_t index, uint8_t *out, size_t *n);
uint32_t keys_sign(const struct m_k_sign *, const uint8_t *p, size_t n, uint8_t *out, size_t *len);
/* memory.c: before anything else of libcrypto. Fatal when there is none. */
void memory_init(void);
/* What the library loads when it is first used, and the memory of keys, while files and memory can
 * still be had. */
void keys_init(void);

#endif
