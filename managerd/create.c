/* Makes sandboxes. The record is on disk before the engine is asked for a container; the time to
 * live begins at the end. */
#include <bsd/string.h>
#include <bsd/sys/queue.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "managerd/bring.h"
#include "managerd/create.h"
#include "managerd/create_input.h"
#include "managerd/destroy.h"
#include "managerd/engine.h"
#include "managerd/manager.h"
#include "managerd/policy.h"
#include "managerd/quota.h"
#include "managerd/session.h"
#include "managerd/snap.h"
#include "managerd/start.h"
#include "managerd/store.h"

#define WAITERS_MAX 64

/* The same request again, while the first is under way. */
struct waiter {
	TAILQ_ENTRY(waiter) entry;
	struct request rq;
};

struct create {
	struct bring bring; /* first: bring's callbacks get this */
	struct request rq;
	int64_t ttl_s;
	TAILQ_HEAD(, waiter) waiters;
	size_t nwaiters;
	uint32_t status; /* of the failure */
	char text[TEXT_MAX];
};

static void
create_free(struct create *c)
{
	struct waiter *w;

	while ((w = TAILQ_FIRST(&c->waiters)) != NULL) {
		TAILQ_REMOVE(&c->waiters, w, entry);
		free(w);
	}
	free(c);
}

/* What there was of it is removed, or cannot be now: either way the client is told of the failure.
 */
static void
on_removed(void *arg, int failed)
{
	struct box *box = arg;
	struct create *c = box->op;
	struct waiter *w;
	uint32_t retry;

	box->op = NULL;
	if (!failed)
		box_remove(box); /* before it is said */
	if (c == NULL)
		return;
	retry = c->status == 429 ? 5 : 0;
	request_retry(&c->rq, c->status, retry, "%s", c->text);
	TAILQ_FOREACH (w, &c->waiters, entry)
		request_retry(&w->rq, c->status, retry, "%s", c->text);
	create_free(c);
}

static void
on_failed(struct bring *b, uint32_t status, const char *text)
{
	struct create *c = (struct create *)b;
	struct box *box = b->box;
	struct wreckage what = box_wreckage(box);

	c->status = status;
	strlcpy(c->text, text, sizeof(c->text));
	strlcpy(box->container, b->container, sizeof(box->container));
	box->state = BOX_DESTROYING;
	if (b->made)
		wreck_add(&what, box->container, on_removed, box);
	else
		on_removed(box, 0);
}

static int
on_record(struct bring *b)
{
	return box_save(b->box);
}

static void
create_listed(struct box *box, const char *request_id)
{
	struct policy policy;
	char id[ID_TEXT_MAX];

	box_list(box);
	policy_load(&policy, &mgr.child.config);
	log_request(request_id);
	log_info("sandbox %s is ready: image %s%s", id_text(id, "sb_", box->id), box->spec.image,
	    !egress_bridged(&policy.egress, &box->spec)
		? egress_rule(&policy.egress, &box->spec) != NULL ? ", with a way out by egressd"
								  : ""
	    : mgr.child.unfiltered
		? ", with network; etc/agent-sandbox.nft was not loaded at the start: "
		  "the host and its LAN are in reach"
		: ", with network");
	log_request(NULL);
}

static void
on_ready(struct bring *b)
{
	struct create *c = (struct create *)b;
	struct box *box = b->box;
	struct waiter *w;

	strlcpy(box->container, b->container, sizeof(box->container));
	box->pool = b->pool;
	box->state = BOX_RUNNING;
	box_set_ttl(box, c->ttl_s);
	box->created_us = box->expires_us - c->ttl_s * 1000000;
	if (box_save(box) == -1) {
		box->pool = 0;
		bring_drop(b, END_BACKEND);
		on_failed(b, errno == ENOSPC || errno == EDQUOT ? 507 : 502,
		    "the server's data directory cannot be written");
		return;
	}
	box->op = NULL;
	if (!box->run)
		create_listed(box, c->rq.request_id);
	bring_adopt(b);
	request_sandbox(&c->rq, box);
	TAILQ_FOREACH (w, &c->waiters, entry)
		request_sandbox(&w->rq, box);
	create_free(c);
	reap_soon();
}

struct idem_search {
	const struct idem *asked;
	const struct tenant *tenant;
	struct box *same;
	int conflict;
};

static void
idem_look(struct box *box, void *arg)
{
	struct idem_search *search = arg;

	if (box->state == BOX_DESTROYING || box->tenant != search->tenant)
		return;
	switch (idem_judge(&box->idem, search->asked)) {
	case IDEM_SAME:
		search->same = box;
		break;
	case IDEM_CONFLICT:
		search->conflict = 1;
		break;
	case IDEM_OTHER:
		break;
	}
}

static void
create_wait(struct create *c, const struct request *rq)
{
	struct waiter *w;

	if (c->nwaiters >= WAITERS_MAX || (w = calloc(1, sizeof(*w))) == NULL) {
		struct request copy = *rq;

		request_retry(&copy, 503, 1, "too many requests wait for this Idempotency-Key");
		return;
	}
	w->rq = *rq;
	c->nwaiters++;
	TAILQ_INSERT_TAIL(&c->waiters, w, entry);
}

/* Whether a request with this Idempotency-Key was here before; then it is answered, or waits. */
static int
create_repeated(struct request *rq, const struct idem *idem)
{
	struct idem_search search = {.asked = idem, .tenant = rq->tenant};

	if (!idem->given)
		return 0;
	box_each(idem_look, &search);
	if (search.conflict)
		request_reply(rq, 409, "the Idempotency-Key was used for another request");
	else if (search.same == NULL)
		return 0;
	else if (search.same->listed)
		request_sandbox(rq, search.same);
	else
		create_wait(search.same->op, rq);
	return 1;
}

/* Whether there may be one more like that; else the request is answered. */
static int
create_room(struct request *rq, const struct spec *spec)
{
	size_t max = CFG(MAX_SANDBOXES);

	if (quota_sandbox(rq, spec) == -1)
		return -1;
	if (box_count() >= max)
		request_retry(rq, 429, 5,
		    "the limit of %zu sandboxes is reached; delete one or try again later", max);
	else if (box_count() + box_count_leaving() >= 2 * max)
		request_retry(rq, 429, 1, "too many sandboxes are still being removed; try again");
	else
		return 0;
	return -1;
}

/* Quota; then the engine's work begins, or a member of the pool is claimed: then only its success
 * is put on record. Takes the contents of spec. */
static void
create_begin(struct request *rq, struct spec *spec, const struct idem *idem, int64_t ttl_s,
    const struct snap *snap, int run)
{
	struct create *c;
	struct box *box;

	if (!engine_up()) {
		request_reply(rq, 502, "%s", engine_why());
		goto refused;
	}
	if (create_room(rq, spec) == -1)
		goto refused;
	if ((c = calloc(1, sizeof(*c))) == NULL)
		fatal("create");
	box = box_new(0);
	if (bring_init(&c->bring, box, box->generation, snap) == -1) {
		log_warn("a snapshot's file");
		request_reply(rq, 502, "the snapshot cannot be read");
		goto fail;
	}
	box->state = BOX_CREATING;
	/* Half of the places: as many again may be on their way out before one more is refused. */
	wreck_room(CFG(MAX_SANDBOXES) / 2, box_count());
	box->run = run;
	if (run) {
		box->runner = rq->key;
		memcpy(box->runner_addr, rq->addr, sizeof(box->runner_addr));
	}
	box->tenant = rq->tenant;
	box->spec = *spec;
	memset(spec, 0, sizeof(*spec));
	box->idem = *idem;
	box->source = snap == NULL ? 0 : snap->id;
	box->op = c;
	TAILQ_INIT(&c->waiters);
	c->rq = *rq;
	c->ttl_s = ttl_s;
	c->bring.ready = on_ready;
	c->bring.failed = on_failed;
	c->bring.record = on_record;
	if (bring_start(&c->bring) == -1) {
		request_turn(0); /* the engine may have been asked already */
		request_disk(rq);
		goto fail;
	}
	return;
fail:
	bring_drop(&c->bring, END_BACKEND);
	free(c);
	box_free(box);
refused:
	spec_clear(spec);
}

static void
tristates_check(const struct m_create *ask)
{
	if (ask->network > NOT_GIVEN || ask->read_only > NOT_GIVEN || ask->run > 1 ||
	    ask->egress > 1 || ask->keep > 1)
		fatalx("apid sent neither yes nor no");
	/* Nobody could be given it: it is in no list, and gone with its one answer. */
	if (ask->run && ask->has_idem)
		fatalx("apid sent an Idempotency-Key for a run");
}

static void
idem_read(struct idem *idem, const struct m_create *ask)
{
	memset(idem, 0, sizeof(*idem));
	if (!ask->has_idem)
		return;
	idem->given = 1;
	idem->at_us = time_wall_us();
	memcpy(idem->key, ask->idem_key, sizeof(idem->key));
	memcpy(idem->body, ask->idem_body, sizeof(idem->body));
}

void
create_request(struct request *rq, struct msg *m)
{
	const struct m_create *ask = m->payload;
	struct spec spec = {0};
	struct create_input in = {0};
	struct policy policy;
	const struct snap *snap = ask->snapshot != 0 ? snap_seen(rq, ask->snapshot) : NULL;
	struct idem idem;
	int64_t ttl_s;
	char text[TEXT_MAX];
	int status;

	tristates_check(ask);
	if (strlen(m->tail) != m->tail_len)
		fatalx("apid sent an image that is none");
	create_input_read(msg_take_fd(m), &in);
	spec.env = in.env;
	spec.labels = in.labels;
	idem_read(&idem, ask);
	policy_load(&policy, &mgr.child.config);
	if (create_repeated(rq, &idem))
		spec_clear(&spec);
	else if (ask->snapshot != 0 && snap == NULL) {
		request_no_snapshot(rq, ask->snapshot);
		spec_clear(&spec);
	} else if ((status = policy_resolve(&policy, ask, m->tail, &in.egress, NULL, &spec, &ttl_s,
			text, sizeof(text))) != 0) {
		request_reply(rq, status, "%s", text);
		spec_clear(&spec);
	} else
		create_begin(rq, &spec, &idem, ttl_s, snap, ask->run);
	strings_clear(&in.egress);
}

void
fork_request(struct request *rq, struct msg *m)
{
	const struct m_create *ask = m->payload;
	const struct snap *snap;
	struct spec spec;
	struct policy policy;
	struct idem idem;
	int64_t ttl_s;
	char text[TEXT_MAX];
	int status;

	tristates_check(ask);
	request_target(rq, "snap_", ask->snapshot);
	idem_read(&idem, ask);
	if (create_repeated(rq, &idem))
		return;
	if ((snap = snap_seen(rq, ask->snapshot)) == NULL) {
		request_no_snapshot(rq, ask->snapshot);
		return;
	}
	policy_load(&policy, &mgr.child.config);
	if (snap_spec(snap, &spec) == -1) {
		log_warn("a snapshot's record");
		request_reply(rq, 502, "the snapshot cannot be read");
		return;
	}
	free(spec.image);
	free(spec.egress);
	spec.image = spec.egress = NULL;
	if ((status = policy_resolve(
		 &policy, ask, NULL, NULL, &snap->spec, &spec, &ttl_s, text, sizeof(text))) != 0) {
		request_reply(rq, status, "%s", text);
		spec_clear(&spec);
	} else
		create_begin(rq, &spec, &idem, ttl_s, snap, 0);
}
