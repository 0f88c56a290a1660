/* Rolls sandboxes back. Until the record names the new generation nothing of the old one is
 * touched. */
#include <bsd/string.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "managerd/bring.h"
#include "managerd/destroy.h"
#include "managerd/engine.h"
#include "managerd/jobs.h"
#include "managerd/manager.h"
#include "managerd/policy.h"
#include "managerd/reconcile.h"
#include "managerd/rollback.h"
#include "managerd/session.h"
#include "managerd/snap.h"
#include "managerd/start.h"

struct rollback {
	struct bring bring; /* first: bring's callbacks get this */
	struct request rq;
	enum box_state before; /* of the sandbox */
	uint64_t snapshot;
	int started;
};

/* What the engine has of the generation before. */
struct leftover {
	uint64_t sandbox;
};

/* The sandbox may be used again; what happened to it meanwhile is looked at. */
static void
rollback_over(struct box *box)
{
	box->op = NULL;
	if (box->session == NULL)
		start_check(box);
	else if (box->session->up)
		jobs_flush(box);
	reap_soon();
}

static void
on_failed(struct bring *b, uint32_t status, const char *text)
{
	struct rollback *r = (struct rollback *)b;
	struct box *box = b->box;
	struct wreckage what = {.sandbox = box->id, .generation = b->generation};

	/* What was stopped may have been started meanwhile, for those who had asked before. */
	box->state = box->session != NULL && box->session->up ? BOX_RUNNING : r->before;
	box_save(box); /* if not: the record names the old generation all the same */
	if (b->made)
		wreck_add(&what, b->container, NULL, NULL);
	request_retry(&r->rq, status, status == 429 ? 5 : 0, "%s", text);
	free(r);
	rollback_over(box);
}

static void rollback_start(struct rollback *);

/* The old generation is gone, or will be later. The next rollback waits for that: else they could
 * pile up. */
static void
on_old_gone(void *arg, int failed)
{
	struct leftover *l = arg;
	struct box *box = box_find(l->sandbox);

	if (failed)
		log_warnx("a generation that was rolled back is removed later");
	if (box != NULL && box->leftover == l) {
		box->leftover = NULL;
		if (box->state == BOX_ROLLING_BACK && !((struct rollback *)box->op)->started)
			rollback_start(box->op);
	}
	if (!failed)
		free(l);
}

static void
old_remove(struct box *box, const struct wreckage *what, const char *container)
{
	struct leftover *l;

	if ((l = malloc(sizeof(*l))) == NULL)
		fatal("rollback");
	l->sandbox = box->id;
	box->leftover = l;
	wreck_add(what, container, on_old_gone, l);
}

static int
on_record(struct bring *b)
{
	return box_save(b->box);
}

static void
on_ready(struct bring *b)
{
	struct rollback *r = (struct rollback *)b;
	struct box *box = b->box;
	struct box old = *box;
	struct wreckage gone = box_wreckage(box);

	box->state = BOX_RUNNING;
	box->generation = b->generation;
	strlcpy(box->container, b->container, sizeof(box->container));
	box->pool = b->pool;
	box->source = r->snapshot;
	box->renewing = 0;
	if (box_save(box) == -1) {
		int full = errno == ENOSPC || errno == EDQUOT;

		box->generation = old.generation;
		strlcpy(box->container, old.container, sizeof(box->container));
		box->pool = old.pool;
		box->source = old.source;
		box->renewing = old.renewing;
		bring_drop(b, END_BACKEND);
		on_failed(b, full ? 507 : 502,
		    "the server's data directory cannot be written; nothing was changed");
		return;
	}
	start_end(box, END_ROLLED_BACK);
	bring_adopt(b);
	old_remove(box, &gone, old.container);
	request_sandbox(&r->rq, box);
	free(r);
	rollback_over(box);
}

static void
rollback_start(struct rollback *r)
{
	struct box *box = r->bring.box;

	r->started = 1;
	if (bring_start(&r->bring) == 0)
		return;
	box->top--;
	box->state = r->before;
	request_turn(0); /* the engine may have been asked already */
	request_disk(&r->rq);
	bring_drop(&r->bring, END_BACKEND);
	free(r);
	rollback_over(box);
}

/* A run ends with its key, at any moment: a rollback would be in the middle of it. */
static struct box *
rollback_box(struct request *rq, uint64_t id)
{
	struct box *box = request_box(rq, id);

	if (box == NULL || !box->run)
		return box;
	request_no_sandbox(rq, id);
	return NULL;
}

void
rollback_request(struct request *rq, struct msg *m)
{
	const struct m_rollback *ask = m->payload;
	const struct snap *snap;
	struct rollback *r;
	struct box *box;

	if ((box = rollback_box(rq, ask->sandbox)) == NULL)
		return;
	if ((snap = snap_seen(rq, ask->snapshot)) == NULL) {
		request_no_snapshot(rq, ask->snapshot);
		return;
	}
	if (snap->tenant != box->tenant) { /* admin sees both */
		request_reply(rq, 403, "the snapshot and the sandbox belong to different tenants");
		return;
	}
	if (!engine_up()) {
		request_reply(rq, 502, "%s", engine_why());
		return;
	}
	if (!reconcile_done()) {
		request_retry(rq, 503, 1, "the server is starting");
		return;
	}
	if (box->disk_low) {
		request_reply(
		    rq, 507, "the disk that holds the sandbox's workspace is almost full");
		return;
	}
	if (box->renewal != NULL) {
		request_reply(
		    rq, 409, "sandbox %s is getting a new container; try again", rq->target);
		return;
	}
	if (snapshot_pending(box)) {
		request_reply(
		    rq, 409, "a snapshot of sandbox %s is being made; try again", rq->target);
		return;
	}
	if ((r = calloc(1, sizeof(*r))) == NULL)
		fatal("rollback");
	if (bring_init(&r->bring, box, box->top + 1, snap) == -1) {
		log_warn("a snapshot's file");
		request_reply(rq, 502, "the snapshot cannot be read");
		free(r);
		return;
	}
	r->before = box->state;
	r->snapshot = snap->id;
	box->top++;
	box->state = BOX_ROLLING_BACK;
	r->rq = *rq;
	r->bring.ready = on_ready;
	r->bring.failed = on_failed;
	box->op = r;
	r->bring.record = on_record;
	if (box->leftover == NULL)
		rollback_start(r); /* else on_old_gone() does */
}
