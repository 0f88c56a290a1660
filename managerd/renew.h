/*
 * Gives a sandbox whose init is of another version of the server a new container of this one's, on
 * the same volume. /workspace stays; /tmp and what ran in the old container end with it.
 */
#ifndef MANAGERD_RENEW_H
#define MANAGERD_RENEW_H

#include "managerd/box.h"

/*
 * The old container may be gone already. start_renewed() or start_not_renewed() comes, unless it is
 * dropped. From before the old container is removed until the new one was attached to the record
 * says so (box->renewing): without a container such a sandbox is not lost.
 */
void renew_start(struct box *);
/* No callback comes. */
void renew_drop(struct box *);

#endif
