/* apid's channel to the parent. */
#ifndef APID_PARENT_H
#define APID_PARENT_H

#include "common/child.h"

/* Says READY at once, or when the first certificates are in use. */
void parent_init(struct child *, int wait_for_tls);

#endif
