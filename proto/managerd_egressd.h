/*
 * managerd <-> egressd: connections that leave sandboxes. Each E_DIAL carries one end of a stream
 * socket and is answered by one E_DIALED with its id, and one E_DIAL_END when all is over, which is
 * the last. egressd knows the operator's list and limits from the parent; managerd's rule only
 * narrows them.
 */
#ifndef PROTO_MANAGERD_EGRESSD_H
#define PROTO_MANAGERD_EGRESSD_H

#include "common/chan.h"
#include "proto/dial.h"

#define DIAL_ADDRESS_MAX 48

/* tail: the name as it was said inside, then the sandbox's list, or "*" for any public address */
struct m_e_dial {
	uint64_t sandbox; /* what the limits count by */
	uint32_t name_len;
	uint16_t port;
	uint8_t how; /* enum dial_how */
	uint8_t pad;
};

/* What egressd keeps of this sandbox goes, its connections too. */
struct m_e_forget {
	uint64_t sandbox;
};

/* tail: why, fit for the client inside; "" with DIAL_OK */
struct m_e_dialed {
	uint32_t verdict; /* enum dial_verdict */
	uint32_t pad;
};

/* tail: why it ended, or was not let out; the verdict may be another than before: what the first
 * bytes showed */
struct m_e_dial_end {
	int64_t bytes_in; /* into the sandbox */
	int64_t bytes_out;
	int64_t duration_us;
	uint32_t verdict; /* enum dial_verdict */
	uint32_t pad;
	char address[DIAL_ADDRESS_MAX]; /* the one that was connected to, or tried last; "" none */
};

/*     from     message     payload              tail                             fd */
#define MANAGERD_EGRESSD(X)                                                            \
	X(MANAGERD, E_DIAL, struct m_e_dial, DIAL_NAME_MAX + EGRESS_TEXT_MAX, FD_MUST) \
	X(MANAGERD, E_FORGET, struct m_e_forget, 0, FD_NONE)                           \
	X(EGRESSD, E_DIALED, struct m_e_dialed, DIAL_TEXT_MAX, FD_NONE)                \
	X(EGRESSD, E_DIAL_END, struct m_e_dial_end, DIAL_TEXT_MAX, FD_NONE)

enum { MANAGERD_EGRESSD_BASE = 0x0500 - 1, MANAGERD_EGRESSD(CHAN_X_ENUM) };
MANAGERD_EGRESSD(CHAN_X_ASSERT)
MANAGERD_EGRESSD(CHAN_X_SEND)
static const struct msg_spec managerd_egressd_specs[] = {MANAGERD_EGRESSD(CHAN_X_SPEC)};
static const struct chan_proto managerd_egressd_proto __attribute__((unused)) = {"managerd-egressd",
    managerd_egressd_specs, sizeof(managerd_egressd_specs) / sizeof(managerd_egressd_specs[0])};

#endif
