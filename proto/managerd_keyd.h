/*
 * managerd <-> keyd: checkpoints of the audit log. keyd keeps the number and hash of the line that
 * it has signed last, and signs none that stands before it: who owns managerd cannot have another
 * history signed. K_CHECKPOINT and K_ASK_LAST have one answer each, with their id.
 */
#ifndef PROTO_MANAGERD_KEYD_H
#define PROTO_MANAGERD_KEYD_H

#include "common/chan.h"

enum checkpoint_status {
	CHECKPOINT_OK,
	CHECKPOINT_BACK,   /* it has signed a later line, or another one with this number */
	CHECKPOINT_BUSY,   /* too many in this second */
	CHECKPOINT_FAILED, /* its file, or the library */
};

/* All lines up to this one are durable. */
struct m_k_checkpoint {
	uint64_t seq;
	uint8_t head[32];  /* SHA-256 of the line */
	char instance[40]; /* the uuid of the data directory */
};

struct m_k_checkpointed {
	uint32_t status; /* enum checkpoint_status */
	uint32_t pad;
	int64_t at_us; /* when, as keyd sees it */
	uint8_t key[32];
	uint8_t signature[64];
};

/* Lines that were lost since the last one that told of lost ones: it outlives managerd. */
struct m_k_lost {
	uint64_t lost;
};

struct m_k_last {
	uint64_t seq; /* 0: this key has signed nothing yet */
	uint64_t lost;
	uint8_t head[32];
	uint8_t key[32];
};

/*     from      message       payload                   tail  fd */
#define MANAGERD_KEYD(X)                                             \
	X(MANAGERD, K_ASK_LAST, struct m_k_lost, 0, FD_NONE)         \
	X(MANAGERD, K_CHECKPOINT, struct m_k_checkpoint, 0, FD_NONE) \
	X(MANAGERD, K_LOST, struct m_k_lost, 0, FD_NONE)             \
	X(KEYD, K_LAST, struct m_k_last, 0, FD_NONE)                 \
	X(KEYD, K_CHECKPOINTED, struct m_k_checkpointed, 0, FD_NONE)

enum { MANAGERD_KEYD_BASE = 0x0700 - 1, MANAGERD_KEYD(CHAN_X_ENUM) };
MANAGERD_KEYD(CHAN_X_ASSERT)
MANAGERD_KEYD(CHAN_X_SEND)
static const struct msg_spec managerd_keyd_specs[] = {MANAGERD_KEYD(CHAN_X_SPEC)};
static const struct chan_proto managerd_keyd_proto __attribute__((unused)) = {"managerd-keyd",
    managerd_keyd_specs, sizeof(managerd_keyd_specs) / sizeof(managerd_keyd_specs[0])};

#endif
