/*
 * Checkpoints of the audit log. The key and what was signed last are in a file that the parent has
 * opened, where nobody but root and keyd can reach it.
 */
#ifndef KEYD_AUDIT_H
#define KEYD_AUDIT_H

#include "proto/managerd_keyd.h"

/* What libcrypto loads for this, while files can be had. */
void audit_init(void);
/* Takes both descriptors. Without a key in state one is made; pub gets the public one, in hex.
 * Damaged: fatal. */
void audit_use(int state, int pub);
void audit_last(struct m_k_last *);
/* Fills in the answer. */
void audit_checkpoint(const struct m_k_checkpoint *, struct m_k_checkpointed *);
void audit_lost(uint64_t lost);

#endif
