/* Runs a channel on a libevent loop. */
#ifndef COMMON_CHAN_EVENT_H
#define COMMON_CHAN_EVENT_H

#include "common/chan.h"

struct event_base;

/* As chan_new(), and reads and writes by itself from then on. chan_free() undoes it. Fatal when out
 * of memory. */
struct chan *chan_event_new(struct event_base *, int fd, const struct chan_proto *, enum peer self,
    enum peer other, chan_handler, chan_gone, void *arg);
/* Reads no more while too many answers wait; see chan_on_hold(). */
void chan_event_hold(struct chan *);

#endif
