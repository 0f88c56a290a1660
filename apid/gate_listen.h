/* What the parts of the gate share: the list of connections, the clock, the log. */
#ifndef APID_GATE_LISTEN_H
#define APID_GATE_LISTEN_H

#include "apid/gate.h"

struct evhttp;
struct sockaddr;

/* gate.c */
/* metrics: it is that of AGENT_SANDBOX_METRICS_LISTEN, anything but NULL. */
void gate_attach_http(struct evhttp *, void *metrics);
void gate_kick(struct conn *); /* the rest happens outside of callbacks */
void gate_flow(struct conn *); /* reads when there is room for it */
void gate_write_raw(struct conn *, const char *p, size_t n);

/* gate_head.c: moves at most one request on */
void gate_run_head(struct conn *);

/* gate_body.c */
void gate_run_body(struct conn *);

/* gate_peer.c */
/* A new connection gets its peer and its place. -1: its address has no more; it is to be freed. */
int gate_admit(struct conn *, const struct sockaddr *);
/* A trusted proxy has said who it is. As gate_admit(). */
int gate_set_peer(struct conn *, const struct peer_addr *);
/* The header of a trusted proxy, if raw begins with one: 1 go on behind it, 0 wait, -1 malformed.
 */
int gate_proxy_header(struct conn *);
/* Once a second: tells of what was cut. 0: there is nothing to tell. */
int gate_peer_tick(void);

/* gate_listen.c */
/* evhttp as we use it, without a listener. */
struct evhttp *gate_http_new(struct event_base *, void *metrics);
uint32_t gate_tick(void); /* seconds, as the loop has counted them */
void gate_add(struct conn *);
void gate_limit(struct conn *newcomer); /* makes room if all places are taken */
void gate_remove(struct conn *);
int gate_is_going_down(void);
/* At most a few lines a second: whether it is one of them. */
int gate_may_log(void);
void gate_log_refusal(const char *peer, const char *id, int status, const char *why);
void gate_log_handshake(const char *peer, const char *why);

/* req.c */
const char *req_status_code(int status);
const char *req_status_reason(int status);
const char *req_new_id(void); /* static text */

#endif
