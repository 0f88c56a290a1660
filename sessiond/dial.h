/* Connections out of the sandbox: the channels that the guest opens (proto/guest.h), each with a
 * socket whose other end managerd hands on. */
#ifndef SESSIOND_DIAL_H
#define SESSIOND_DIAL_H

#include <stddef.h>
#include <stdint.h>

#include "common/frame.h"

struct session;

/* Tells the guest that there is a way out, if there is one and the guest is up. */
void dial_announce(struct session *);
/* The answer to that. NULL, or why it is a breach. */
const char *dial_listens(struct session *, const struct frame *);
/* Handles one frame of a dial's channel. NULL, or why it is a breach. */
const char *dial_frame(struct session *, const struct frame *);
/* managerd's answer to S_DIAL id. */
void
dial_verdict(struct session *, uint64_t id, uint32_t verdict, const char *text, uint32_t text_len);
/* There is room again on the way to the guest. */
void dial_room(struct session *);
/* The session is over. */
void dial_drop_all(struct session *);

#endif
