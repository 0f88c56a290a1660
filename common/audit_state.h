/*
 * What keyd keeps of the audit log, in one file: the seed of its signing key, and two slots that
 * are written in turn, so that one is always whole. agent-sandbox reads it to see a log that was
 * cut. Pure but for libcrypto.
 */
#ifndef COMMON_AUDIT_STATE_H
#define COMMON_AUDIT_STATE_H

#include <stddef.h>
#include <stdint.h>

#define AUDIT_STATE_DIR "keyd" /* in the data directory; root's */
#define AUDIT_STATE_FILE "audit"
#define AUDIT_STATE_PUBLIC "audit.pub"
#define AUDIT_STATE_SIZE 1536
#define AUDIT_SLOT_AT(i) (512 + 512 * (i)) /* 0, 1 */

/* At the beginning. */
struct audit_state_head {
	char magic[8];
	uint8_t seed[32]; /* of Ed25519 */
	uint8_t sum[32];  /* SHA-256 of what is before */
};

struct audit_slot {
	uint64_t count; /* the higher one is the one that counts */
	uint64_t seq;   /* of the line that was signed last; 0: none */
	uint64_t lost;  /* lines that were lost since then, and of which no line tells */
	uint8_t head[32];
	uint8_t sum[32]; /* SHA-256 of what is before */
};

/* Sets sum; checks it: 1, or 0. */
void audit_slot_seal(struct audit_slot *);
int audit_slot_good(const struct audit_slot *);
void audit_state_seal(struct audit_state_head *);

enum audit_state { AUDIT_STATE_GOOD, AUDIT_STATE_EMPTY /* as it was made */, AUDIT_STATE_DAMAGED };
/* The newest slot of a whole file, and which it is. */
enum audit_state audit_state_read(const uint8_t file[AUDIT_STATE_SIZE], size_t n,
    struct audit_state_head *, struct audit_slot *, int *which);

#endif
