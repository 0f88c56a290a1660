/*
 * Gets a sandbox its session: at the first use of a stopped one, in the background for those that
 * run, again after a session was lost. Finds out what became of a container, and ends sandboxes
 * whose container is gone.
 */
#ifndef MANAGERD_START_H
#define MANAGERD_START_H

#include "managerd/box.h"

/* Starts it unless that is under way; its waiting jobs are handed on when it is up, or fail. */
void start_box(struct box *);
/* Attaches running sandboxes that have no session, a few at a time. */
void start_background(void);
void start_reaped(struct box *); /* an ended session was reaped */
/* Gives up whatever is under way, and ends the session; its jobs end with this reason. */
void start_end(struct box *, uint32_t reason);
/* Takes over a session that is up (after create, rollback). */
void start_adopt(struct box *, struct session *);
/* It was claimed from the pool: asks the engine to give its container the sandbox's name. */
void start_name(struct box *);
/* Asks the engine what became of the container, and acts on it. */
void start_check(struct box *);
/* The same, if this state, which may be old news, is not what is known here. */
void start_check_if(struct box *, uint32_t state);
/* renew.c: the new container can be attached to; or there is none. text is fit for clients. */
void start_renewed(struct box *);
void start_not_renewed(struct box *, const char *text);
/* The engine's word on the container: enum container_state. */
void start_found(struct box *, uint32_t state);

#endif
