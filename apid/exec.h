/* What exec and exec/stream share. */
#ifndef APID_EXEC_H
#define APID_EXEC_H

#include "apid/exec_request.h"
#include "apid/output.h"
#include "apid/xfer.h"

/* Checks the request (body: its JSON) and its query. -1: it was answered. */
int exec_prepare(struct req *, json_t *body, struct exec_request *, int *as_base64);
/* Sends the job, its arguments and, unless the body of the request will bring it, its input. Frees
 * e->args. */
void exec_start(struct xfer *, struct exec_request *, int fd);
/* The members that ?detail=true adds, each with a comma in front. */
void exec_detail(struct evbuffer *, const struct r_exit *);

#endif
