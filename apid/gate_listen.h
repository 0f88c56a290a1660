/* What the two halves of the gate share: the list of connections, the clock, the log. */
#ifndef APID_GATE_LISTEN_H
#define APID_GATE_LISTEN_H

#include "apid/gate.h"

struct evhttp;

/* gate.c */
struct bufferevent *gate_new_connection(struct event_base *, void *);
void gate_attach_http(struct evhttp *);

/* gate_listen.c */
uint32_t gate_tick(void); /* seconds, as the loop has counted them */
void gate_add(struct conn *);
void gate_remove(struct conn *);
int gate_is_going_down(void);
/* At most a few lines a second. */
void gate_log_refusal(const char *peer, int status, const char *why);

/* req.c */
const char *req_status_code(int status);
const char *req_status_reason(int status);
const char *req_new_id(void); /* static text */

#endif
