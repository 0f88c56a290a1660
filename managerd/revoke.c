/* Looks at all that is under way after the key file was read anew, and when a key expires. */
#include <event2/event.h>
#include <string.h>

#include "common/ids.h"
#include "common/log.h"
#include "managerd/box.h"
#include "managerd/destroy.h"
#include "managerd/jobs.h"
#include "managerd/keys.h"
#include "managerd/manager.h"
#include "managerd/revoke.h"

static int64_t next_s = KEYS_NEVER; /* seconds since 1970 */

static int64_t
wall_s(void)
{
	return time_wall_us() / 1000000;
}

/* A run whose key is gone: apid may not even end it any more. */
static void
run_look(struct box *box, void *arg)
{
	const int64_t *now = arg;

	if (box_serves_run(box) && !keys_still(box->runner, box->runner_addr, SCOPE_EXEC, *now))
		box_destroy(box, END_DELETED, NULL);
}

static void
box_look(struct box *box, void *arg)
{
	const int64_t *now = arg;

	jobs_revoke(box, *now);
}

void
revoke_all(void)
{
	int64_t now = wall_s();

	box_each(box_look, &now);
	box_each(run_look, &now);
	next_s = keys_next_expiry(now);
}

static void
tick(evutil_socket_t fd, short what, void *arg)
{
	static int64_t before;
	int64_t now = wall_s();

	(void)fd, (void)what, (void)arg;
	if (now < before) /* the clock was set back: keys that had expired are good again */
		next_s = keys_next_expiry(now);
	before = now;
	if (now >= next_s)
		revoke_all();
	else
		box_each(run_look, &now); /* one may have become ready since */
}

void
revoke_start(void)
{
	struct timeval second = {1, 0};
	struct event *ev;

	next_s = keys_next_expiry(wall_s());
	if ((ev = event_new(mgr.base, -1, EV_PERSIST, tick, NULL)) == NULL ||
	    event_add(ev, &second) == -1)
		fatalx("revoke: out of memory");
}
