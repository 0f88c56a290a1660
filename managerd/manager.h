/* What all of managerd shares: the loop, the channels, the configuration. */
#ifndef MANAGERD_MANAGER_H
#define MANAGERD_MANAGER_H

#include "common/child.h"
#include "common/confine.h"

struct event_base;

struct manager {
	struct child child;
	struct event_base *base;
	struct chan *parent;
	struct chan *apid;
	struct chan *docker;
	struct chan *egress;
	char uuid[40]; /* of the data directory */
	int partial;   /* confinement of any program */
};

extern struct manager mgr;
extern const struct confine managerd_confine;

#define CFG(key) (mgr.child.config.num[CFG_##key])
#define CFG_TEXT(key) (mgr.child.config.str[CFG_##key])

/* state.c: at SIGUSR1. */
void manager_state(void);

/* Tells the parent, once, that requests may come. */
void manager_ready(void);

/* apid.c: what apid may ask. parent.c: what the parent says. */
void apid_message(struct chan *, struct msg *);
void parent_message(struct chan *, struct msg *);

#endif
