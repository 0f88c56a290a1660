/*
 * keyd as apid sees it: it holds the private keys of the server's certificates, apid asks it to
 * sign what a handshake needs. Each call waits for the answer. A keyd that says nothing for two
 * seconds is fatal, so that all of the server starts anew.
 */
#ifndef APID_KEYD_H
#define APID_KEYD_H

#include <stddef.h>
#include <stdint.h>

struct event_base;

/* Takes over fd. gone: keyd has ended. */
void keyd_init(struct event_base *, int fd, void (*gone)(void));
/* The public key as DER SubjectPublicKeyInfo. Its length, or -1: keyd has no such key. */
int keyd_public(uint32_t generation, uint32_t index, uint8_t *der, size_t size);
/* Signs n bytes for a TLS SignatureScheme. The length of the signature, or -1: keyd refuses. */
int keyd_sign(uint32_t generation, uint32_t index, uint16_t scheme, const uint8_t *bytes, size_t n,
    uint8_t *signature, size_t size);
/* Older generations are not needed any more. */
void keyd_use(uint32_t generation);

#endif
