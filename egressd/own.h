/* Which addresses are this machine's own, by the kernel's routing: where would a packet go? */
#ifndef EGRESSD_OWN_H
#define EGRESSD_OWN_H

#include "common/egress.h"

/* Before the confinement, which lets nobody make such a socket. */
void own_start(void);
/*
 * NULL when packets to the address leave for another host; else what it is: "own", "broadcast", …
 * With *error (an errno) set when there is no way to it. Nothing is sent.
 */
const char *own_kind(const struct egress_addr *, int *error);

#endif
