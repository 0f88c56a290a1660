/* Ends sandboxes whose time to live is over, by a clock that never jumps, and what else is looked
 * at once a second. */
#include <event2/event.h>

#include "common/ids.h"
#include "common/log.h"
#include "managerd/destroy.h"
#include "managerd/jobs.h"
#include "managerd/manager.h"
#include "managerd/session.h"
#include "managerd/start.h"

#define AT_ONCE 8 /* each is written to the disk, and others wait for that */

static struct event *timer;

struct look {
	int ended;
	int64_t left; /* until the next one, which a nearer deadline brings forward */
};

static void
reap_one(struct box *box, void *arg)
{
	struct look *look = arg;
	int64_t left = box->deadline_us - time_boot_us();

	if (box->state != BOX_RUNNING && box->state != BOX_STOPPED)
		return;
	if (box->run && box->claims != 0 && box->name_us <= time_boot_us())
		start_name(box);
	if (left <= 0 && look->ended < AT_ONCE) {
		look->ended++;
		box_destroy(box, END_EXPIRED, NULL);
	} else if (left < look->left)
		look->left = left > 0 ? left : 0;
}

static void
reap(evutil_socket_t fd, short what, void *arg)
{
	struct look look = {.left = CFG(REAP_INTERVAL_SECONDS) / 1000};
	struct timeval tv;

	(void)fd, (void)what, (void)arg;
	box_each(reap_one, &look);
	start_background();
	snapshots_look();
	if (look.left > 1000000)
		look.left = 1000000; /* the time of a suspended machine counts; its timers do not */
	tv.tv_sec = look.left / 1000000;
	tv.tv_usec = look.left % 1000000 + 1000;
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
