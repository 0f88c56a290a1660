/* Destroys sandboxes: the session first, then container and volume, the record last. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "managerd/audit.h"
#include "managerd/destroy.h"
#include "managerd/dial.h"
#include "managerd/engine.h"
#include "managerd/gone.h"
#include "managerd/jobs.h"
#include "managerd/quiet.h"
#include "managerd/quota.h"
#include "managerd/session.h"
#include "managerd/start.h"
#include "managerd/store.h"

void
box_remove(struct box *box)
{
	char name[STORE_NAME_MAX];

	if (!box->run &&
	    store_remove(STORE_SANDBOXES, store_name(name, "sb_", box->id, ".json")) == -1)
		log_warn("%s", name);
	box_free(box);
}

static void
on_destroyed(void *arg, int failed)
{
	struct box *box = arg;
	struct request *rq = box->op;

	box->op = NULL;
	if (!failed)
		box_remove(box); /* before it is said */
	if (rq == NULL)
		return;
	if (failed)
		request_reply(rq, 502, "%s; the sandbox is removed later",
		    engine_up() ? "the Docker engine failed" : engine_why());
	else
		request_reply(rq, 204, NULL);
	free(rq);
}

static const char *
reason_text(uint32_t reason)
{
	return reason == END_DELETED    ? "was deleted"
	       : reason == END_EXPIRED  ? "expired"
	       : reason == END_SHUTDOWN ? "was ended with the server"
					: "was lost by the engine";
}

/* Of a run that was answered nothing goes on; then the engine can remove its container when that
 * takes the processors from no other. */
static int
run_silenced(struct box *box, uint32_t reason)
{
	if (!box->run || reason != END_DELETED || box->session == NULL || !box->session->up ||
	    box->session->chan == NULL)
		return 0;
	session_kill_all(box->session);
	quiet_broken();
	if (!quota_crowded(box->tenant))
		return 1;
	wreck_room(0, 0);
	return 0;
}

void
box_destroy(struct box *box, uint32_t reason, struct request *rq)
{
	struct wreckage what = box_wreckage(box);
	char id[ID_TEXT_MAX], text[128];
	int later = run_silenced(box, reason);

	id_text(id, "sb_", box->id);
	snprintf(text, sizeof(text), "sandbox %s %s", id, reason_text(reason));
	if (rq != NULL) {
		if ((box->op = malloc(sizeof(*rq))) == NULL)
			fatal("destroy");
		memcpy(box->op, rq, sizeof(*rq));
	} else {
		audit_own(reason == END_EXPIRED   ? "expire"
			  : reason == END_DELETED ? "delete"
						  : "lose",
		    id, reason_text(reason));
		log_info("%s", text);
	}
	box->state = BOX_DESTROYING;
	box->end_reason = reason;
	box_save(box); /* if not: what the engine has removed says it after a crash */
	if (reason == END_BACKEND)
		snprintf(text, sizeof(text), "sandbox %s not found", id);
	jobs_fail_waiting(box, reason == END_BACKEND ? 404 : 409, text);
	start_end(box, reason);
	dial_forget(box);
	if (!box->run)
		gone_add(box->id, box->tenant, reason);
	if (later)
		wreck_add_later(&what, box->container, on_destroyed, box);
	else
		wreck_add(&what, box->container, on_destroyed, box);
}

void
box_discard(struct box *box)
{
	struct wreckage what = box_wreckage(box);

	box->state = BOX_DESTROYING;
	box->op = NULL;
	wreck_add(&what, box->container, on_destroyed, box);
}
