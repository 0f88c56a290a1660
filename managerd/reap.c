/* Ends sandboxes whose time to live is over, by a clock that never jumps. */
#include <event2/event.h>

#include "common/ids.h"
#include "common/log.h"
#include "managerd/destroy.h"
#include "managerd/manager.h"
#include "managerd/session.h"
#include "managerd/start.h"

static struct event *timer;

/* left: until the next look, which a nearer deadline brings forward. */
static void
reap_one(struct box *box, void *left)
{
	int64_t *most = left, now = time_boot_us();

	if (box->state != BOX_RUNNING && box->state != BOX_STOPPED)
		return;
	if (box->run && box->claims != 0 && box->name_us <= now)
		start_name(box);
	if (box->deadline_us <= now)
		box_destroy(box, END_EXPIRED, NULL);
	else if (box->deadline_us - now < *most)
		*most = box->deadline_us - now;
}

static void
reap(evutil_socket_t fd, short what, void *arg)
{
	struct timeval tv;
	int64_t left = CFG(REAP_INTERVAL_SECONDS) / 1000;

	(void)fd, (void)what, (void)arg;
	box_each(reap_one, &left);
	start_background();
	if (left > 1000000)
		left = 1000000; /* the time of a suspended machine counts; its timers do not */
	tv.tv_sec = left / 1000000;
	tv.tv_usec = left % 1000000 + 1000;
	event_add(timer, &tv);
}

void
reap_soon(void)
{
	event_active(timer, EV_TIMEOUT, 0);
}

void
reap_start(void)
{
	if ((timer = event_new(mgr.base, -1, 0, reap, NULL)) == NULL)
		fatalx("reap: out of memory");
	reap_soon();
}
