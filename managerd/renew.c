/* Replaces containers, step by step: image, removal, new container. Each step may be the last one
 * before a crash; the next attempt begins anew. */
#include <bsd/string.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/ids.h"
#include "common/log.h"
#include "managerd/audit.h"
#include "managerd/destroy.h"
#include "managerd/engine.h"
#include "managerd/renew.h"
#include "managerd/session.h"
#include "managerd/start.h"

struct renewal {
	struct box *box;
	char image_id[72];
};

void
renew_drop(struct box *box)
{
	if (box->renewal == NULL)
		return;
	engine_drop(box->renewal);
	free(box->renewal);
	box->renewal = NULL;
}

static void
renew_failed(struct renewal *r, const char *why)
{
	struct box *box = r->box;
	char id[ID_TEXT_MAX], text[D_TEXT_MAX + 128];

	renew_drop(box);
	snprintf(text, sizeof(text),
	    "sandbox %s needs a new container after an upgrade of the server: %s",
	    id_text(id, "sb_", box->id), why);
	start_not_renewed(box, text);
}

static void
on_created(void *arg, const struct answer *a)
{
	struct renewal *r = arg;
	struct box *box = r->box;

	if (a->failed && a->why == FAIL_GONE) {
		box_destroy(box, END_BACKEND, NULL); /* the volume is gone */
		return;
	}
	if (a->failed) {
		renew_failed(r, a->text);
		return;
	}
	renew_drop(box);
	strlcpy(box->container, a->container, sizeof(box->container));
	start_renewed(box);
}

static void
on_removed(void *arg, const struct answer *a)
{
	struct renewal *r = arg;
	const struct box *box = r->box;
	struct m_d_create m = {
	    .sandbox = box->id,
	    .pool = box->pool,
	    .generation = box->generation,
	    .keep_volume = 1,
	};

	if (a->failed && a->why != FAIL_GONE) {
		renew_failed(r, a->text);
		return;
	}
	strlcpy(m.image_id, r->image_id, sizeof(m.image_id));
	engine_create(&m, &box->spec, on_created, r);
}

static void
on_prepared(void *arg, const struct answer *a)
{
	struct renewal *r = arg;
	struct box *box = r->box;
	struct m_d_destroy m = {
	    .sandbox = box->id, .pool = box->pool, .generation = box->generation, .keep_volume = 1};

	if (a->failed) {
		renew_failed(r, a->text);
		return;
	}
	strlcpy(r->image_id, a->prepared->image_id, sizeof(r->image_id));
	box->renewing = 1;
	if (box_save(box) == -1) {
		renew_failed(r, "the server's data directory cannot be written");
		return;
	}
	strlcpy(m.container, box->container, sizeof(m.container));
	box->container[0] = '\0'; /* nobody may name it any more; by its name it is still found */
	engine_take_away(&m, on_removed, r);
}

void
renew_start(struct box *box)
{
	static const char why[] = "was made by another version of the server";
	struct wreckage what = box_wreckage(box);
	struct renewal *r;
	char id[ID_TEXT_MAX];

	if ((r = calloc(1, sizeof(*r))) == NULL)
		fatal("renewal");
	r->box = box;
	box->renewal = r;
	if (engine_creating(&what) || engine_renaming(box->container)) {
		renew_failed(r, "the Docker engine is still busy with it");
		return;
	}
	id_text(id, "sb_", box->id);
	log_info("sandbox %s %s: it gets a new container; /workspace stays, what runs in the old "
		 "one and /tmp end",
	    id, why);
	audit_own("renew", id, why);
	engine_prepare(box->spec.image, box->tenant, 0, on_prepared, r);
}
