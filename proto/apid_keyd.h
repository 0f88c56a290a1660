/*
 * apid <-> keyd: what a TLS handshake needs of a private key, and nothing else. Keys are named by
 * the generation in which the parent gave them and their place in it. Each request has one answer
 * with its id, but for K_USE, which has none.
 */
#ifndef PROTO_APID_KEYD_H
#define PROTO_APID_KEYD_H

#include "common/chan.h"

#define KEYS_AT_ONCE 16    /* of one generation */
#define KEY_INPUT_MAX 1024 /* bytes to be signed */
#define KEY_OUTPUT_MAX 2048

/* TLS SignatureScheme (RFC 8446, 4.2.3). */
enum key_scheme {
	SCHEME_ECDSA_P256_SHA256 = 0x0403,
	SCHEME_ECDSA_P384_SHA384 = 0x0503,
	SCHEME_RSA_PSS_SHA256 = 0x0804,
	SCHEME_RSA_PSS_SHA384 = 0x0805,
	SCHEME_RSA_PSS_SHA512 = 0x0806,
};

enum key_status {
	KEY_OK,
	KEY_UNKNOWN, /* no such generation or place in it */
	KEY_REFUSED, /* not the input of a handshake, or not with this key */
	KEY_BUSY,    /* too many signatures in this second */
	KEY_FAILED,  /* the library failed */
};

struct m_k_key {
	uint32_t generation;
	uint32_t index;
};

/* tail: the bytes to be signed, not their hash */
struct m_k_sign {
	uint32_t generation;
	uint32_t index;
	uint16_t scheme; /* enum key_scheme */
	uint8_t pad[6];
};

/* tail: with KEY_OK the public key as DER SubjectPublicKeyInfo, or the signature as TLS has it */
struct m_k_answer {
	uint32_t status; /* enum key_status */
	uint32_t pad;
};

/* Handshakes use this generation; older ones may be forgotten. */
struct m_k_use {
	uint32_t generation;
	uint32_t pad;
};

/*     from  message      payload            tail            fd */
#define APID_KEYD(X)                                                     \
	X(APID, K_PUBLIC, struct m_k_key, 0, FD_NONE)                    \
	X(APID, K_SIGN, struct m_k_sign, KEY_INPUT_MAX, FD_NONE)         \
	X(APID, K_USE, struct m_k_use, 0, FD_NONE)                       \
	X(KEYD, K_PUBLIC_IS, struct m_k_answer, KEY_OUTPUT_MAX, FD_NONE) \
	X(KEYD, K_SIGNED, struct m_k_answer, KEY_OUTPUT_MAX, FD_NONE)

enum { APID_KEYD_BASE = 0x0600 - 1, APID_KEYD(CHAN_X_ENUM) };
APID_KEYD(CHAN_X_ASSERT)
APID_KEYD(CHAN_X_SEND)
static const struct msg_spec apid_keyd_specs[] = {APID_KEYD(CHAN_X_SPEC)};
static const struct chan_proto apid_keyd_proto __attribute__((unused)) = {
    "apid-keyd", apid_keyd_specs, sizeof(apid_keyd_specs) / sizeof(apid_keyd_specs[0])};

#endif
