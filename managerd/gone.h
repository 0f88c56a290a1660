/* Sandboxes that ended in the last hour, and why. */
#ifndef MANAGERD_GONE_H
#define MANAGERD_GONE_H

#include <stdint.h>

void gone_add(uint64_t sandbox, uint32_t reason); /* enum session_end */
/* "deleted", "ttl", "backend" and what that means; NULL: not known (any more). */
const char *gone_why(uint64_t sandbox);

#endif
