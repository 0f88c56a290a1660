/* Attaches sandboxes: session and stream side by side, one attempt at a time for each. */
#include <stdlib.h>
#include <string.h>

#include "common/ids.h"
#include "common/log.h"
#include "managerd/destroy.h"
#include "managerd/engine.h"
#include "managerd/jobs.h"
#include "managerd/reconcile.h"
#include "managerd/renew.h"
#include "managerd/session.h"
#include "managerd/start.h"

#define AT_ONCE 8          /* background attaches under way */
#define STABLE_US 10000000 /* a session up for so long was a good one */
#define RETRY_MAX_SHIFT 7  /* 0.5 s << n */

static int background; /* starts under way that nobody waits for */

static void start_go(struct box *);

static void
start_over(struct box *box)
{
	if (box->starting == 2)
		background--;
	box->starting = 0;
}

/* The attempt is over without a session: those who wait are told. */
static void
start_failed(struct box *box, uint32_t status, const char *text)
{
	engine_drop(box);
	box->inspecting = 0;
	start_over(box);
	jobs_fail_waiting(box, status, text);
}

static void
on_attached(void *arg, const struct answer *a)
{
	struct box *box = arg;
	struct session *s = box->session;

	if (!a->failed) {
		session_guest(s, a->fd);
		return;
	}
	box->session = NULL;
	session_end(s, END_BACKEND);
	if (a->why == FAIL_GONE && box->state != BOX_ROLLING_BACK) {
		start_found(box, STATE_GONE);
		return;
	}
	box->failures++;
	box->retry_us = time_boot_us() + 1000000;
	start_failed(box, engine_status(a->why), a->text);
}

static void
on_up(void *arg)
{
	struct box *box = arg;

	start_over(box);
	if (box->state == BOX_STOPPED)
		box->state = BOX_RUNNING;
	if (box->renewing) {
		box->renewing = 0;
		box_save(box); /* if not: it is only more than it needs to be */
	}
	jobs_flush(box);
	start_background();
}

void
start_not_renewed(struct box *box, const char *text)
{
	log_warnx("%s", text);
	box->state = BOX_STOPPED; /* the next use tries again */
	start_failed(box, 502, text);
}

/* Its init is of another version of the server. */
static void
start_outdated(struct box *box)
{
	if (box->renewed)
		start_not_renewed(
		    box, "the sandbox's new container is not of this version of the server");
	else
		renew_start(box);
}

static void
on_lost(void *arg, const char *text)
{
	struct box *box = arg;
	struct session *s = box->session;
	char id[ID_TEXT_MAX];
	int was_up = s->up;
	int shift;

	log_info("session of sandbox %s: %s", id_text(id, "sb_", box->id), text);
	if (was_up && time_boot_us() - s->up_us > STABLE_US)
		box->failures = 0;
	shift = box->failures < RETRY_MAX_SHIFT ? box->failures : RETRY_MAX_SHIFT;
	box->retry_us = time_boot_us() + (box->failures == 0 ? 0 : 500000LL << shift);
	box->failures++;
	box->session = NULL;
	jobs_fail_running(box, NULL, 502);
	if (s->outdated && !was_up && box->state != BOX_ROLLING_BACK) {
		start_outdated(box);
		return;
	}
	if (!was_up)
		start_failed(box, 502, text);
	start_check(box);
}

static const struct session_owner owner = {on_up, on_lost, NULL};

static void
start_go(struct box *box)
{
	if (session_lingers(box->id, box->generation))
		return; /* start_reaped() comes */
	if (box->container[0] == '\0' && box->state == BOX_ROLLING_BACK) {
		start_failed(box, 409, "the sandbox is rolling back"); /* to a new container */
		return;
	}
	if (box->container[0] == '\0') {
		renew_start(box); /* it was interrupted, or failed */
		return;
	}
	if (engine_renaming(box->container))
		return; /* on_named() comes */
	/* Of a session that was lost meanwhile. */
	if (engine_attaching(box->container)) {
		box->retry_us = time_boot_us() + 1000000;
		start_failed(box, 502, "the Docker engine is still busy with the sandbox");
		return;
	}
	box->session = session_new(box, box->generation, &owner, box);
	engine_attach(box->container, on_attached, box);
}

void
start_renewed(struct box *box)
{
	box->renewed = 1;
	start_go(box);
}

static void
start_begin(struct box *box, int how)
{
	box->starting = how;
	if (how == 2)
		background++;
	start_go(box);
}

void
start_box(struct box *box)
{
	if (box->starting || box->session != NULL)
		return;
	start_begin(box, 1);
}

void
start_reaped(struct box *box)
{
	if (box->starting && box->session == NULL && box->renewal == NULL)
		start_go(box);
}

void
start_background(void)
{
	struct box *box, *next;
	int64_t now = time_boot_us();

	if (!engine_up() || !reconcile_done())
		return;
	TAILQ_FOREACH_SAFE (box, &boxes, order, next) {
		if (background >= AT_ONCE)
			return;
		if (box->state == BOX_RUNNING && box->session == NULL && !box->starting &&
		    !box->inspecting && box->retry_us <= now)
			start_begin(box, 2);
	}
}

void
start_end(struct box *box, uint32_t reason)
{
	struct session *s = box->session;

	engine_drop(box);
	renew_drop(box);
	box->inspecting = 0;
	start_over(box);
	box->session = NULL;
	if (s != NULL)
		session_end(s, reason);
	jobs_fail_running(box, s, reason == END_BACKEND ? 502 : 409);
}

void
start_adopt(struct box *box, struct session *s)
{
	box->session = s;
	box->failures = 0;
	box->disk_low = 0;
	session_adopt(s, &owner, box);
}

/* Without its name it is found all the same: the next start asks for it again. */
static void
on_named(void *arg, const struct answer *a)
{
	struct box *box = arg;
	char id[ID_TEXT_MAX];

	if (a->failed)
		log_warnx("the container of sandbox %s keeps its name of the pool: %s",
		    id_text(id, "sb_", box->id), a->text);
	if (box->starting && box->session == NULL && box->renewal == NULL)
		start_go(box);
	else if (box->look_later)
		start_check(box);
}

void
start_name(struct box *box)
{
	box->claims = 0;
	engine_rename(box->container, box, on_named, box);
}

/* What became of the container cannot be found out now: who waits for a session does not wait for
 * that. */
static void
start_unknown(struct box *box, uint32_t status, const char *text)
{
	if (box->session == NULL && !box->starting)
		jobs_fail_waiting(box, status, text);
}

/* Snapshots that stood behind another one when the session was lost: a new one takes them. */
static void
start_for_waiting(struct box *box)
{
	if (!TAILQ_EMPTY(&box->waiting))
		start_box(box);
}

static void
on_inspected(void *arg, const struct answer *a)
{
	struct box *box = arg;

	box->inspecting = 0;
	if (box->starting || (box->state != BOX_RUNNING && box->state != BOX_STOPPED))
		return; /* how that ends decides */
	if (!a->failed)
		start_found(box, a->state);
	else if (a->why == FAIL_GONE)
		start_found(box, STATE_GONE);
	else {
		box->retry_us = time_boot_us() + 1000000;
		start_unknown(box, engine_status(a->why), a->text);
	}
}

void
start_check(struct box *box)
{
	if (box->inspecting || box->starting ||
	    (box->state != BOX_RUNNING && box->state != BOX_STOPPED))
		return;
	if (!engine_up()) { /* everything is looked at when it is back */
		start_unknown(box, 502, engine_why());
		return;
	}
	if (box->container[0] == '\0') {
		box->state = BOX_STOPPED; /* a renewal has failed */
		start_for_waiting(box);
		return;
	}
	box->look_later = engine_renaming(box->container);
	if (box->look_later)
		return; /* on_named() comes */
	box->inspecting = 1;
	engine_inspect(box->container, on_inspected, box);
}

void
start_check_if(struct box *box, uint32_t state)
{
	if ((state == STATE_RUNNING) != (box->state == BOX_RUNNING) ||
	    (state != STATE_RUNNING && box->session != NULL))
		start_check(box);
}

void
start_found(struct box *box, uint32_t state)
{
	switch (state) {
	case STATE_GONE:
		if (!box->renewing) {
			box_destroy(box, END_BACKEND, NULL);
			break;
		}
		box->container[0] = '\0';
		start_not_renewed(box, "the sandbox's new container is gone");
		break;
	case STATE_RUNNING:
		box->state = BOX_RUNNING;
		start_for_waiting(box);
		start_background();
		break;
	default:
		if (box->session != NULL || box->starting)
			start_end(box, END_BACKEND);
		box->state = BOX_STOPPED;
		start_for_waiting(box);
	}
}
