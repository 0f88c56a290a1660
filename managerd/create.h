/* CREATE and FORK: a new sandbox, from nothing or from a snapshot. */
#ifndef MANAGERD_CREATE_H
#define MANAGERD_CREATE_H

#include "managerd/request.h"
#include "managerd/spec.h"

struct msg;

void create_request(struct request *, struct msg *);
void fork_request(struct request *, struct msg *);

#define CREATE_RECORDS_MAX (512 * 1024)

/*
 * The data socket's records of a CREATE: ENV*, LABEL*, DONE, in p[0..n). 0, or -1 when they are not
 * exactly that, or break the bounds. Pure.
 */
int create_records(const uint8_t *p, size_t n, struct strings *env, struct strings *labels);

#endif
