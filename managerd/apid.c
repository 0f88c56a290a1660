/* What apid may ask: each request is authorised first, by one table, then handled. */
#include <bsd/stdlib.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "managerd/audit.h"
#include "managerd/box.h"
#include "managerd/create.h"
#include "managerd/destroy.h"
#include "managerd/engine.h"
#include "managerd/jobs.h"
#include "managerd/keys.h"
#include "managerd/manager.h"
#include "managerd/metrics.h"
#include "managerd/policy.h"
#include "managerd/quota.h"
#include "managerd/rate.h"
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

	if (box == NULL || !box_shown(box) || !request_may_see(rq, box->tenant))
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

static struct box *
next_box(const struct request *rq, struct box *box)
{
	return rq->admin ? TAILQ_NEXT(box, order) : TAILQ_NEXT(box, own);
}

/* The next page begins where the last one ended: no walk through all that came before. */
static struct box *
first_box(const struct request *rq, const struct m_list *ask)
{
	struct box *box = box_find(ask->after_id);

	if (box != NULL && box->listed && request_may_see(rq, box->tenant) &&
	    !behind(ask, box->created_us, box->id))
		return box;
	return rq->admin ? TAILQ_FIRST(&boxes) : TAILQ_FIRST(&rq->tenant->boxes);
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
	for (box = first_box(rq, ask); box != NULL; box = next_box(rq, box)) {
		if (!behind(ask, box->created_us, box->id) || !box_shown(box))
			continue;
		if (name != NULL &&
		    ((has = spec_label(&box->spec, name)) == NULL || strcmp(has, want) != 0))
			continue;
		if (n++ == ask->max || bytes > PAGE_BYTES) {
			page_end(rq, 1);
			return;
		}
		bytes += send_sandbox(rq, box);
	}
	page_end(rq, 0);
}

static struct snap *
next_snap(const struct request *rq, struct snap *snap)
{
	return rq->admin ? TAILQ_NEXT(snap, order) : TAILQ_NEXT(snap, own);
}

static void
on_snapshots(struct request *rq, struct msg *m)
{
	const struct m_list *ask = m->payload;
	struct snap *snap;
	uint32_t n = 0;
	size_t bytes = 0;

	list_check(ask);
	snap = snap_seen(rq, ask->after_id);
	if (snap == NULL || behind(ask, snap->created_us, snap->id))
		snap = rq->admin ? TAILQ_FIRST(&snaps) : TAILQ_FIRST(&rq->tenant->snaps);
	for (; snap != NULL; snap = next_snap(rq, snap)) {
		if (!behind(ask, snap->created_us, snap->id) ||
		    (ask->sandbox != 0 && snap->sandbox != ask->sandbox))
			continue;
		if (n++ == ask->max || bytes > PAGE_BYTES) {
			page_end(rq, 1);
			return;
		}
		bytes += send_snapshot(rq, snap);
	}
	page_end(rq, 0);
}

static void
on_destroy(struct request *rq, struct msg *m)
{
	const struct m_id *ask = m->payload;
	struct box *box = box_find(ask->id);

	if (box != NULL && box_shown(box) && request_may_see(rq, box->tenant) &&
	    box->state == BOX_DESTROYING && !engine_up()) {
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
	struct snap *snap = snap_seen(rq, ask->id);

	if (snap == NULL)
		request_no_snapshot(rq, ask->id);
	else
		request_snapshot(rq, snap);
}

static void
on_snapshot_delete(struct request *rq, struct msg *m)
{
	const struct m_id *ask = m->payload;
	struct snap *snap = snap_seen(rq, ask->id);

	request_target(rq, "snap_", ask->id);
	if (snap == NULL)
		request_no_snapshot(rq, ask->id);
	else if (snapshot_delete(snap) == -1)
		request_disk(rq);
	else
		request_reply(rq, 204, NULL);
}

static void
on_metrics(struct request *rq, struct msg *m)
{
	metrics_send(m->id);
	request_reply(rq, 200, NULL);
}

/* Whether it came to the address where nobody needs a key, if there is one. */
static int
is_open(const struct msg *m)
{
	const struct m_metrics *ask = m->payload;

	if (m->type != MSG_METRICS || !ask->open)
		return 0;
	if (*CFG_TEXT(METRICS_LISTEN) == '\0')
		fatalx("apid asked for metrics without a key");
	return 1;
}

static void
health_answer(uint64_t id, int up)
{
	struct m_health m = {
	    .engine_up = up, .partial = mgr.partial, .hard_quota = engine_hard_quota()};
	const char *why = up ? "" : engine_why();

	send_HEALTH(mgr.apid, id, &m, why, strlen(why), -1);
}

/* action: its name in the audit log; NULL: a read. own_scope: what is enough for the sandbox of a
 * run of one's own. */
static const struct route {
	uint32_t type;
	uint8_t scope, own_scope; /* enum keys_scope */
	const char *action;
	const char *name; /* in the line of a refusal */
	void (*handle)(struct request *, struct msg *);
} routes[] = {
    {MSG_AUTH, 0, 0, NULL, "auth", on_auth},
    {MSG_GET, SCOPE_READ, SCOPE_READ, NULL, "get", on_get},
    {MSG_LIST, SCOPE_READ, SCOPE_READ, NULL, "list", on_list},
    {MSG_CREATE, SCOPE_MANAGE, SCOPE_EXEC, "create", "create", create_request},
    {MSG_FORK, SCOPE_MANAGE, SCOPE_MANAGE, "fork", "fork", fork_request},
    {MSG_DESTROY, SCOPE_MANAGE, SCOPE_EXEC, "destroy", "destroy", on_destroy},
    {MSG_SET_TIMEOUT, SCOPE_MANAGE, SCOPE_MANAGE, "timeout", "timeout", on_set_timeout},
    {MSG_EXEC, SCOPE_EXEC, SCOPE_EXEC, "exec", "exec", job_exec},
    {MSG_FILE_READ, SCOPE_FILES, SCOPE_FILES, NULL, "file_read", job_file},
    {MSG_FILE_WRITE, SCOPE_FILES, SCOPE_EXEC, "file_write", "file_write", job_file},
    {MSG_FILE_LIST, SCOPE_FILES, SCOPE_FILES, NULL, "file_list", job_file},
    {MSG_FILE_REMOVE, SCOPE_FILES, SCOPE_EXEC, "file_remove", "file_remove", job_file},
    {MSG_ARCHIVE_GET, SCOPE_FILES, SCOPE_FILES, NULL, "archive_get", job_file},
    {MSG_ARCHIVE_PUT, SCOPE_FILES, SCOPE_FILES, "archive_put", "archive_put", job_file},
    {MSG_SNAPSHOT_MAKE, SCOPE_MANAGE, SCOPE_MANAGE, "snapshot", "snapshot", job_snapshot},
    {MSG_ROLLBACK, SCOPE_MANAGE, SCOPE_MANAGE, "rollback", "rollback", rollback_request},
    {MSG_SNAPSHOTS, SCOPE_READ, SCOPE_READ, NULL, "snapshots", on_snapshots},
    {MSG_SNAPSHOT_GET, SCOPE_READ, SCOPE_READ, NULL, "snapshot_get", on_snapshot_get},
    {MSG_SNAPSHOT_DELETE, SCOPE_MANAGE, SCOPE_MANAGE, "snapshot_delete", "snapshot_delete",
	on_snapshot_delete},
    {MSG_METRICS, SCOPE_ADMIN, SCOPE_ADMIN, NULL, "metrics", on_metrics},
};

/* Where the sandbox stands in a request about one. */
_Static_assert(offsetof(struct m_id, id) == offsetof(struct m_exec, sandbox) &&
		   offsetof(struct m_id, id) == offsetof(struct m_file, sandbox),
    "the sandbox follows the ask");

/* The scopes that a request needs. */
static uint8_t
scope_needed(const struct route *route, const struct msg *m, const struct key *key)
{
	const struct m_create *create = m->payload;
	const struct m_auth *probe = m->payload;
	const struct box *box;

	if (m->type == MSG_AUTH) {
		if (probe->scope > KEYS_SCOPES_ALL)
			fatalx("apid asked for a scope that is none");
		return probe->scope;
	}
	if (route->own_scope == route->scope)
		return route->scope;
	if (m->type == MSG_CREATE)
		return !create->run   ? route->scope
		       : create->keep ? route->own_scope | SCOPE_MANAGE
				      : route->own_scope;
	box = box_find(((const struct m_id *)m->payload)->id);
	return box != NULL && box->run && box->runner == key->serial ? route->own_scope
								     : route->scope;
}

static void
answer(uint64_t id, uint32_t status, uint32_t retry_after, const char *text)
{
	struct m_reply m = {.status = status, .retry_after = retry_after};

	send_REPLY(mgr.apid, id, &m, text, strlen(text), -1);
}

/* Nobody's key, or not a good one. The client learns only that, however it came to be. */
static void
refuse_stranger(uint64_t id, const struct m_ask *ask, const struct key *key, const char *name,
    enum keys_verdict why)
{
	static struct strangers strangers;
	int64_t a_minute = CFG(FAILED_KEYS_A_MINUTE), wait = 0;

	while (strangers.secret[0] == 0)
		arc4random_buf(strangers.secret, sizeof(strangers.secret));
	if (ask->has_key && a_minute > 0 && !rate_is_loopback(ask->addr))
		wait = strangers_take(&strangers, ask->addr, a_minute, time_boot_us());
	audit_refused(ask, key, name, wait == 0 ? 401 : 429, keys_verdict_text(why));
	if (wait == 0)
		answer(id, 401, 0, "missing or invalid API key");
	else
		answer(id, 429, rate_seconds(wait),
		    "too many requests with an invalid API key from this address");
}

static void
refuse_scope(
    uint64_t id, const struct m_ask *ask, const struct key *key, const char *name, uint8_t missing)
{
	char text[64];
	unsigned bit = 0;

	while ((missing & 1 << bit) == 0)
		bit++;
	snprintf(text, sizeof(text), "this key lacks the scope %s", keys_scope_name(bit));
	audit_refused(ask, key, name, 403, "scope missing");
	answer(id, 403, 0, text);
}

/* Nothing that changes something begins when it could not be written down; what is under way goes
 * on. */
static int
refuse_unwritten(const struct msg *m, const struct key *key, const struct route *route)
{
	const struct m_auth *auth = m->payload;
	int changes = m->type == MSG_AUTH ? auth->changes : route->action != NULL;

	int makes_room = m->type == MSG_DESTROY || m->type == MSG_SNAPSHOT_DELETE;

	if (!changes || auth->ask.again || !audit_refuses(makes_room))
		return 0;
	audit_refused(&auth->ask, key, route->name, 503, "the audit log cannot be written");
	answer(m->id, 503, 1, "the audit log cannot be written");
	return 1;
}

static void
ask_check(const struct m_ask *ask)
{
	if (memchr(ask->peer, '\0', sizeof(ask->peer)) == NULL ||
	    memchr(ask->request_id, '\0', sizeof(ask->request_id)) == NULL ||
	    memchr(ask->subject, '\0', sizeof(ask->subject)) == NULL)
		fatalx("apid sent text without an end");
}

void
apid_message(struct chan *c, struct msg *m)
{
	const struct m_ask *ask = m->payload; /* the first member of every request */
	const struct route *route = routes;
	const struct key *key;
	enum keys_verdict verdict;
	struct request rq;
	uint8_t scope;
	int64_t wait;

	(void)c;
	if (m->type == MSG_ASK_HEALTH) {
		engine_probe(health_answer, m->id);
		return;
	}
	ask_check(ask);
	if (is_open(m)) {
		metrics_send(m->id);
		answer(m->id, 200, 0, "");
		return;
	}
	while (route->type != m->type)
		route++;
	verdict = keys_check(ask, time_wall_us() / 1000000, &key);
	if (verdict != KEYS_GOOD) {
		refuse_stranger(m->id, ask, key, route->name, verdict);
		return;
	}
	if (!ask->again && (wait = quota_request(key->tenant, time_boot_us())) > 0) {
		audit_refused(ask, key, route->name, 429, "too many requests");
		answer(m->id, 429, rate_seconds(wait), "too many requests a second; try again");
		return;
	}
	scope = scope_needed(route, m, key);
	if ((key->scopes & scope) != scope) {
		refuse_scope(m->id, ask, key, route->name, scope & ~key->scopes);
		return;
	}
	if (refuse_unwritten(m, key, route))
		return;
	request_begin(&rq, m->id, ask, key, scope, route->action);
	log_request(ask->request_id);
	request_turn(m->id);
	route->handle(&rq, m);
	request_turn(0);
	log_request(NULL);
}
