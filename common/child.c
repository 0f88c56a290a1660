/* A program's channel to its parent, on its event loop; see child.h. */
#include "common/child.h"

#include <stdlib.h>
#include <sys/resource.h>

#include "common/chan_event.h"
#include "common/log.h"
#include "proto/parent.h"

/* Killing the parent leaves nothing: without it nobody could be told anything any more. */
static void
parent_gone(struct chan *c)
{
	const struct child *child = chan_arg(c);

	log_debug("the parent has gone");
	if (child->leave != NULL)
		child->leave();
	exit(0);
}

/* At SIGUSR1: what every program can say of itself, then what only this one knows. */
static void
tell_state(const struct child *child)
{
	struct rusage used;

	if (getrusage(RUSAGE_SELF, &used) == 0)
		log_info("state: %lld.%03d s of processor time, %ld MiB of memory at most",
		    (long long)(used.ru_utime.tv_sec + used.ru_stime.tv_sec),
		    (int)((used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1000 % 1000),
		    used.ru_maxrss / 1024);
	if (child->state != NULL)
		child->state();
}

/* That the loop comes to read this is the answer. */
static void
on_message(struct chan *c, struct msg *m)
{
	const struct child *child = chan_arg(c);

	if (m->type == MSG_P_PING)
		send_P_PONG(c, m->id, &(struct m_none){0}, NULL, 0, -1);
	else if (m->type == MSG_P_STATE)
		tell_state(child);
	else if (child->handler != NULL)
		child->handler(c, m);
	else
		fatalx("parent: message 0x%04x after the setup", (unsigned)m->type);
}

struct chan *
child_run(struct child *child, struct event_base *base, const struct chan_proto *proto,
    chan_handler handler)
{
	child->handler = handler;
	return chan_event_new(
	    base, FD_PARENT, proto, CHILD, PARENT, on_message, parent_gone, child);
}

void
child_ready(struct child *child, struct chan *c)
{
	send_P_READY(c, 0, &(struct m_ready){.partial = (uint8_t)child->partial}, NULL, 0, -1);
}
