/* ROLLBACK: the new generation is brought up beside the old one and swapped in when all of it is
 * there. */
#ifndef MANAGERD_ROLLBACK_H
#define MANAGERD_ROLLBACK_H

#include "managerd/request.h"

struct msg;

void rollback_request(struct request *, struct msg *);

#endif
