/* The list of hosts that a client gives a sandbox: checked as it came. */
#ifndef APID_EGRESS_H
#define APID_EGRESS_H

#include "apid/json_in.h"

/* v may be NULL. 0, or -1 and why. */
int egress_check(const json_t *v, struct refusal *why);

#endif
