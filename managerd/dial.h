/* Connections that leave sandboxes: sessiond asks, egressd decides, the audit log is told. */
#ifndef MANAGERD_DIAL_H
#define MANAGERD_DIAL_H

#include <stdint.h>

struct chan;
struct msg;
struct session;

void dial_start(void); /* its timer, and what is to be done at the end */
/* S_DIAL of a session that is up: 0, or -1 when it makes no sense. */
int dial_request(struct session *, struct msg *);
/* egressd's word. */
void dial_message(struct chan *, struct msg *);
/* The sandbox is gone, and with it what egressd keeps of it. */
struct box;
void dial_forget(struct box *);

#endif
