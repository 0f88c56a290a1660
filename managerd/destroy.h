/* The end of sandboxes: by request, by time, because the engine lost them, because a create failed.
 */
#ifndef MANAGERD_DESTROY_H
#define MANAGERD_DESTROY_H

#include "managerd/box.h"
#include "managerd/request.h"

/* reason: enum session_end. rq: who is answered 204 or 502, or NULL. The box is gone when the
 * engine has confirmed. */
void box_destroy(struct box *, uint32_t reason, struct request *);
/* From an earlier start: one that was being made or destroyed. */
void box_discard(struct box *);
/* Record and box; the engine has nothing of it any more. */
void box_remove(struct box *);
/* Expired ones; and the timer for the next. */
void reap_start(void);
void reap_soon(void); /* a deadline has changed */

#endif
