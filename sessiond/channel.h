/* What the guest may say on which channel and when: the one place that decides it. */
#ifndef SESSIOND_CHANNEL_H
#define SESSIOND_CHANNEL_H

#include "common/frame.h"
#include "sessiond/session.h"

struct job;

#define CHANNEL_FILES 57 /* from here on execs have no share */

/* Handles one whole frame. NULL, or why it is a breach. */
const char *channel_frame(struct session *, const struct frame *);
/* Gives the job a free channel with fresh windows; -1: none is free. */
int channel_open(struct job *);

#endif
