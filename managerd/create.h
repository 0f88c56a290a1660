/* CREATE and FORK: a new sandbox, from nothing or from a snapshot. */
#ifndef MANAGERD_CREATE_H
#define MANAGERD_CREATE_H

#include "managerd/request.h"
#include "managerd/spec.h"

struct msg;

void create_request(struct request *, struct msg *);
void fork_request(struct request *, struct msg *);

#endif
