/* What all of egressd knows: its channels, its settings, how much of what it has is in use. */
#ifndef EGRESSD_EGRESSD_H
#define EGRESSD_EGRESSD_H

#include <stdint.h>

#include "common/chan.h"
#include "common/child.h"
#include "common/confine.h"
#include "common/egress.h"

struct event_base;

struct egressd {
	struct child child;
	struct event_base *base;
	struct chan *manager;
	struct egress_list list;   /* the operator's; empty: there is none */
	int allowed;               /* a way out without that list */
	int proxied;               /* and one to every public address */
	unsigned dials, dials_max; /* at once, of all sandboxes */
	uint64_t held;             /* bytes that wait in buffers */
	int64_t idle_us, total_us; /* limits of one connection */
};
extern struct egressd egressd;

extern const struct confine egressd_confine;

/* Microseconds of a clock that only goes forward. */
int64_t egressd_now(void);

/* managerd's messages (manager.c). */
void manager_message(struct chan *, struct msg *);
void manager_gone(struct chan *);

#endif
