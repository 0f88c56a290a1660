/* Sandboxes that ended in the last hour, and why. */
#ifndef MANAGERD_GONE_H
#define MANAGERD_GONE_H

#include <stdint.h>

struct tenant;

void gone_add(uint64_t sandbox, const struct tenant *, uint32_t reason); /* enum session_end */
/* "deleted", "ttl", "backend" and what that means; NULL: not known (any more), or not one of this
 * tenant's. tenant NULL: of any. */
const char *gone_why(uint64_t sandbox, const struct tenant *);

#endif
