/* What apid may ask: each request is authorised first, by one table, then handled. */
#include <string.h>

#include "common/log.h"
#include "managerd/audit.h"
#include "managerd/auth.h"
#include "managerd/box.h"
#include "managerd/create.h"
#include "managerd/destroy.h"
#include "managerd/engine.h"
#include "managerd/jobs.h"
#include "managerd/manager.h"
#include "managerd/policy.h"
#include "managerd/rollback.h"
#include "managerd/snapshot.h"

static void
on_auth(struct request *rq, struct msg *m)
{
	(void)m;
	request_reply(rq, 200, NULL);
}

static void
on_get(struct request *rq, struct msg *m)
{
	const struct m_id *ask = m->payload;
	struct box *box = box_find(ask->id);

	if (box == NULL || !box_shown(box))
		request_no_sandbox(rq, ask->id);
	else
		request_sandbox(rq, box);
}

#define PAGE_BYTES 16384 /* of labels and names; the item that goes beyond is the page's last */

/* Whether the item at this time and id is behind the cursor. */
static int
behind(const struct m_list *ask, int64_t created_us, uint64_t id)
{
	return created_us > ask->after_us || (created_us == ask->after_us && id > ask->after_id);
}

static void
page_end(struct request *rq, int more)
{
	struct m_page_end end = {.more = more};

	send_PAGE_END(mgr.apid, rq->id, &end, NULL, 0, -1);
}

static void
list_check(const struct m_list *ask)
{
	if (ask->max == 0 || ask->max > PAGE_MAX)
		fatalx("apid asked for a page out of bounds");
}

static void
on_list(struct request *rq, struct msg *m)
{
	const struct m_list *ask = m->payload;
	const char *name = NULL, *want = NULL, *has;
	struct box *box;
	uint32_t n = 0;
	size_t bytes = 0;

	list_check(ask);
	if (m->tail_len > 0) {
		name = m->tail;
		if (strlen(name) == m->tail_len)
			fatalx("apid sent a label without a value");
		want = name + strlen(name) + 1;
	}
	/* The next page begins where the last one ended: no walk through all that came before. */
	box = box_find(ask->after_id);
	if (box == NULL || !box->listed || behind(ask, box->created_us, box->id))
		box = TAILQ_FIRST(&boxes);
	for (; box != NULL; box = TAILQ_NEXT(box, order)) {
		if (!behind(ask, box->created_us, box->id) || !box_shown(box))
			continue;
		if (name != NULL &&
		    ((has = spec_label(&box->spec, name)) == NULL || strcmp(has, want) != 0))
			continue;
		if (n++ == ask->max || bytes > PAGE_BYTES) {
			page_end(rq, 1);
			return;
		}
		bytes += send_sandbox(rq->id, box);
	}
	page_end(rq, 0);
}

static void
on_snapshots(struct request *rq, struct msg *m)
{
	const struct m_list *ask = m->payload;
	struct snap *snap;
	uint32_t n = 0;
	size_t bytes = 0;

	list_check(ask);
	snap = snap_find(ask->after_id);
	if (snap == NULL || behind(ask, snap->created_us, snap->id))
		snap = TAILQ_FIRST(&snaps);
	for (; snap != NULL; snap = TAILQ_NEXT(snap, order)) {
		if (!behind(ask, snap->created_us, snap->id) ||
		    (ask->sandbox != 0 && snap->sandbox != ask->sandbox))
			continue;
		if (n++ == ask->max || bytes > PAGE_BYTES) {
			page_end(rq, 1);
			return;
		}
		bytes += send_snapshot(rq->id, snap);
	}
	page_end(rq, 0);
}

static void
on_destroy(struct request *rq, struct msg *m)
{
	const struct m_id *ask = m->payload;
	struct box *box = box_find(ask->id);

	if (box != NULL && box_shown(box) && box->state == BOX_DESTROYING && !engine_up()) {
		request_target(rq, "sb_", ask->id);
		request_reply(rq, 502, "%s; the sandbox is removed later", engine_why());
	} else if ((box = request_box(rq, ask->id)) != NULL)
		box_destroy(box, END_DELETED, rq);
}

static void
on_set_timeout(struct request *rq, struct msg *m)
{
	const struct m_timeout *ask = m->payload;
	struct policy policy;
	struct box *box;
	int64_t expires, deadline;
	char text[TEXT_MAX];
	int status;

	if ((box = request_box(rq, ask->sandbox)) == NULL)
		return;
	policy_load(&policy, &mgr.child.config);
	if ((status = policy_ttl(&policy, ask->ttl_s, text, sizeof(text))) != 0) {
		request_reply(rq, status, "%s", text);
		return;
	}
	expires = box->expires_us;
	deadline = box->deadline_us;
	box_set_ttl(box, ask->ttl_s);
	if (box_save(box) == -1) {
		box->expires_us = expires;
		box->deadline_us = deadline;
		request_disk(rq);
		return;
	}
	request_sandbox(rq, box);
	reap_soon();
}

static void
on_snapshot_get(struct request *rq, struct msg *m)
{
	const struct m_id *ask = m->payload;
	struct snap *snap = snap_find(ask->id);

	if (snap == NULL)
		request_no_snapshot(rq, ask->id);
	else
		request_snapshot(rq, snap);
}

static void
on_snapshot_delete(struct request *rq, struct msg *m)
{
	const struct m_id *ask = m->payload;
	struct snap *snap = snap_find(ask->id);

	request_target(rq, "snap_", ask->id);
	if (snap == NULL)
		request_no_snapshot(rq, ask->id);
	else if (snapshot_delete(snap) == -1)
		request_disk(rq);
	else
		request_reply(rq, 204, NULL);
}

static void
health_answer(uint64_t id, int up)
{
	struct m_health m = {
	    .engine_up = up, .partial = mgr.partial, .hard_quota = engine_hard_quota()};
	const char *why = up ? "" : engine_why();

	send_HEALTH(mgr.apid, id, &m, why, strlen(why), -1);
}

/* action: its name in the audit log; NULL: a read. */
static const struct route {
	uint32_t type;
	const char *action;
	const char *name; /* in the line of a refusal */
	void (*handle)(struct request *, struct msg *);
} routes[] = {
    {MSG_AUTH, NULL, "auth", on_auth},
    {MSG_GET, NULL, "get", on_get},
    {MSG_LIST, NULL, "list", on_list},
    {MSG_CREATE, "create", "create", create_request},
    {MSG_FORK, "fork", "fork", fork_request},
    {MSG_DESTROY, "destroy", "destroy", on_destroy},
    {MSG_SET_TIMEOUT, "timeout", "timeout", on_set_timeout},
    {MSG_EXEC, "exec", "exec", job_exec},
    {MSG_FILE_READ, NULL, "file_read", job_file},
    {MSG_FILE_WRITE, "file_write", "file_write", job_file},
    {MSG_FILE_LIST, NULL, "file_list", job_file},
    {MSG_FILE_REMOVE, "file_remove", "file_remove", job_file},
    {MSG_ARCHIVE_GET, NULL, "archive_get", job_file},
    {MSG_ARCHIVE_PUT, "archive_put", "archive_put", job_file},
    {MSG_SNAPSHOT_MAKE, "snapshot", "snapshot", job_snapshot},
    {MSG_ROLLBACK, "rollback", "rollback", rollback_request},
    {MSG_SNAPSHOTS, NULL, "snapshots", on_snapshots},
    {MSG_SNAPSHOT_GET, NULL, "snapshot_get", on_snapshot_get},
    {MSG_SNAPSHOT_DELETE, "snapshot_delete", "snapshot_delete", on_snapshot_delete},
};

static void
refuse(uint64_t id, const struct m_ask *ask, const char *name)
{
	static const char text[] = "missing or invalid API key";
	struct m_reply m = {.status = 401};

	audit_refused(ask, name);
	send_REPLY(mgr.apid, id, &m, text, sizeof(text) - 1, -1);
}

void
apid_message(struct chan *c, struct msg *m)
{
	const struct m_ask *ask = m->payload; /* the first member of every request */
	const struct route *route = routes;
	struct request rq;
	int key;

	(void)c;
	if (m->type == MSG_ASK_HEALTH) {
		engine_probe(health_answer, m->id);
		return;
	}
	if (memchr(ask->peer, '\0', sizeof(ask->peer)) == NULL ||
	    memchr(ask->request_id, '\0', sizeof(ask->request_id)) == NULL ||
	    memchr(ask->subject, '\0', sizeof(ask->subject)) == NULL)
		fatalx("apid sent text without an end");
	while (route->type != m->type)
		route++;
	if ((key = auth_check(&auth, ask->has_key, ask->key)) == -1) {
		refuse(m->id, ask, route->name);
		return;
	}
	request_begin(&rq, m->id, ask, key, route->action);
	route->handle(&rq, m);
}
