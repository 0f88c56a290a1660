/*
 * What is looked at before anything of a connection is sent on: whether its first bytes ask for the
 * name that was dialled. Pure; both kinds of parser are behind it.
 */
#ifndef EGRESSD_LOOK_H
#define EGRESSD_LOOK_H

#include <stddef.h>
#include <stdint.h>

#include "common/egress.h"
#include "egressd/reason.h"

#define LOOK_MAX 16384 /* bytes; what is not whole by then is refused */

/* What must be looked at of a connection to this port. */
enum look {
	LOOK_NOT,  /* nothing */
	LOOK_TLS,  /* a TLS hello, if it is one */
	LOOK_HTTP, /* an HTTP request, or a TLS hello */
};
enum look look_for(uint16_t port, uint8_t how);

enum look_result { LOOK_MORE, LOOK_PASS, LOOK_REFUSE };
/* p[0..n), n > 0: all that came so far. *why: when it is refused. */
enum look_result look_at(enum look, const uint8_t *p, size_t n, const struct egress_host *dialled,
    uint16_t port, enum reason *why);

#endif
