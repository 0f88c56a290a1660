/*
 * The chain of the audit log: each line is judged by the ones before it. Reads no file and prints
 * nothing, so that it can be tested with any lines.
 */
#ifndef AGENT_SANDBOX_AUDIT_CHAIN_H
#define AGENT_SANDBOX_AUDIT_CHAIN_H

#include <openssl/evp.h>
#include <stddef.h>
#include <stdint.h>

#include "common/audit_line.h"

#define CHAIN_RECENT (1u << 17) /* lines of which the hash is kept, for checkpoints about them */
#define CHAIN_WHY_MAX 320
#define CHAIN_KEY_MAX 32

/* What is wrong. */
enum chain_fault {
	CHAIN_OK,
	CHAIN_CHANGED,   /* a line is not what its successor says; or is no line */
	CHAIN_REMOVED,   /* lines are missing before this one */
	CHAIN_ADDED,     /* a number comes a second time */
	CHAIN_ORDER,     /* this one belongs further back */
	CHAIN_TORN,      /* the line has no end */
	CHAIN_CUT,       /* the log ends before what keyd has signed */
	CHAIN_RECHAINED, /* it fits, but another line was signed in this place */
	CHAIN_SIGNATURE, /* of a checkpoint */
	CHAIN_KEY,       /* signed by another key */
};
extern const char *const chain_fault_names[];

struct chain {
	EVP_MD_CTX *ctx;
	EVP_MD *md;
	char (*recent)[AUDIT_HASH_TEXT]; /* by seq */
	uint64_t seq;                    /* of the last line; 0: none has one yet */
	char head[AUDIT_HASH_TEXT];      /* its hash */
	int any;                         /* a line was taken */
	uint64_t first;                  /* of those with a seq */
	unsigned long long lines, checkpoints;
	/* The log begins behind this line, which must be told of as removed. 0: it is all there. */
	uint64_t behind;
	char behind_head[AUDIT_HASH_TEXT];
	uint64_t kept; /* a line whose hash is wanted at the end; 0: none */
	char kept_head[AUDIT_HASH_TEXT];
	uint64_t signed_upto; /* by the last checkpoint; 0: none */
	char signer[2 * 32 + 1];
	/* Keys that may sign; 0: the one of the first checkpoint, and no other. */
	uint8_t keys[CHAIN_KEY_MAX][32];
	size_t nkeys;
	int trusts_first;
	char why[CHAIN_WHY_MAX]; /* of the last fault */
};

void chain_init(struct chain *);
void chain_free(struct chain *);
/* Takes the next line. The fault is about it; about the one before it with CHAIN_CHANGED and *back
 * set. */
enum chain_fault chain_line(struct chain *, const char *line, size_t len, int *back);
/* Whether this line, which does not follow, would be followed by that one: then the one before both
 * was changed. */
int chain_follows(struct chain *, const char *line, size_t len, const char *next, size_t next_len);
/* audit_signed.c: a checkpoint or a line about a removed file, which chain_line() has taken. */
enum chain_fault chain_special(struct chain *, const char *line, size_t len);
enum chain_fault chain_fault(struct chain *, enum chain_fault, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
