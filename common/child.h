/*
 * The start of every program that agent-sandboxd runs. It is exec'ed with fd 2 the log, fd 3 the
 * parent's channel and, by program, fds 4, 5 … (proto/parent.h); argv has no meaning. It receives
 * its configuration, warms up what would open files later, confines itself, and only then says
 * READY.
 */
#ifndef COMMON_CHILD_H
#define COMMON_CHILD_H

#include "common/chan.h"
#include "common/confine.h"
#include "proto/config.h"

struct event_base;

struct child {
	/* The rows that this program gets; other numbers are 0, other strings "". */
	struct config config;
	struct confine_ids ids;
	int instance; /* enum instance_rule of proto/parent.h, for managerd */
	/* The packet filter rules for sandboxes were not known to be loaded at the start. */
	int unfiltered;
	/* The confinement of this or another program is weaker than asked. */
	int partial;
	/* Tells the log what the program is doing, in a few lines; NULL: there is no more to tell
	 * than what all tell. */
	void (*state)(void);
	/* What is still to be done when the parent has gone, before the end; NULL: nothing. */
	void (*leave)(void);
	char root_path[1024]; /* ids.path points here */
	chan_handler handler; /* of what the parent says after the setup; may be NULL */
};

/*
 * Blocking: closes every fd above nfds + 3, reads the parent's setup from fd 3. name is for the log
 * ("apid"). Fatal when anything is wrong.
 */
void child_setup(struct child *, const char *name, int nfds);
/* Confines (confine_enter). What opens files later must have been warmed up before. */
void child_confine(struct child *, const struct confine *);
/*
 * Makes the parent's channel on the loop; end of file there: exit at once. proto is
 * parent_child_proto or parent_managerd_proto; handler may be NULL where the parent says nothing
 * more after the setup.
 */
struct chan *child_run(
    struct child *, struct event_base *, const struct chan_proto *proto, chan_handler handler);
/* Tells the parent that this program is ready. */
void child_ready(struct child *, struct chan *);

#endif
