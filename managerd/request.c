/* Answers apid: objects, refusals with the texts of the API, audit lines. */
#include <bsd/string.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "managerd/audit.h"
#include "managerd/audit_fold.h"
#include "managerd/box.h"
#include "managerd/gone.h"
#include "managerd/keys.h"
#include "managerd/manager.h"
#include "managerd/request.h"
#include "managerd/snap.h"

#define FAILURES_A_SECOND 10 /* lines about them in the log */

static uint64_t turn; /* of apid's message that is being handled; 0: none */

void
request_begin(struct request *rq, uint64_t id, const struct m_ask *ask, const struct key *key,
    uint8_t scope, const char *action)
{
	memset(rq, 0, sizeof(*rq));
	rq->id = id;
	rq->tenant = key->tenant;
	rq->key = key->serial;
	rq->scope = scope;
	rq->admin = (key->scopes & SCOPE_ADMIN) != 0;
	memcpy(rq->addr, ask->addr, sizeof(rq->addr));
	rq->detail = ask->detail;
	rq->action = action;
	rq->began_us = time_boot_us();
	strlcpy(rq->request_id, ask->request_id, sizeof(rq->request_id));
	if (action == NULL)
		return;
	strlcpy(rq->key_name, key->k.name, sizeof(rq->key_name));
	strlcpy(rq->peer, ask->peer, sizeof(rq->peer));
}

int
request_may_see(const struct request *rq, const struct tenant *tenant)
{
	return rq->tenant == tenant || rq->admin;
}

void
request_target(struct request *rq, const char *prefix, uint64_t id)
{
	id_text(rq->target, prefix, id);
}

/* What is the server's or the engine's fault, with the id that the client knows it by. */
static void
failure_log(const struct request *rq, uint32_t status, const char *text)
{
	static int64_t second;
	static unsigned lines;
	const char *before;

	if (time_boot_us() / 1000000 != second) {
		second = time_boot_us() / 1000000;
		lines = 0;
	}
	if (status < 500 || ++lines > FAILURES_A_SECOND)
		return;
	before = log_request(rq->request_id);
	log_warnx("%u %s", status, text);
	log_request(before);
}

static void
reply_send(struct request *rq, uint32_t status, uint32_t retry_after, const char *fmt, va_list ap)
{
	struct m_reply m = {.status = status, .retry_after = retry_after};
	char text[TEXT_MAX];
	int n = 0;

	if (fmt != NULL)
		n = vsnprintf(text, sizeof(text), fmt, ap);
	if (n < 0)
		n = 0;
	if (n >= (int)sizeof(text))
		n = sizeof(text) - 1;
	text[n] = '\0';
	failure_log(rq, status, text);
	if (rq->id != 0)
		send_REPLY(mgr.apid, rq->id, &m, text, n, -1);
	rq->id = 0;
}

void
request_turn(uint64_t id)
{
	turn = id;
}

/* Refused while it is handled for the first time. 502 is not among them: something of it may have
 * been done, and be done later. */
static int
nothing_was_begun(const struct request *rq, uint32_t status)
{
	if (rq->id == 0 || rq->id != turn)
		return 0;
	return (status >= 400 && status < 500) || status == 503 || status == 507;
}

void
request_ended(struct request *rq, uint32_t status, const int32_t *exit_code)
{
	if (rq->action != NULL && !(nothing_was_begun(rq, status) && audit_fold(rq, status)))
		audit_request(rq, status, exit_code);
	rq->action = NULL;
}

void
request_reply(struct request *rq, uint32_t status, const char *fmt, ...)
{
	va_list ap;

	request_ended(rq, status, NULL);
	va_start(ap, fmt);
	reply_send(rq, status, 0, fmt, ap);
	va_end(ap);
}

void
request_retry(struct request *rq, uint32_t status, uint32_t retry_after, const char *fmt, ...)
{
	va_list ap;

	request_ended(rq, status, NULL);
	va_start(ap, fmt);
	reply_send(rq, status, retry_after, fmt, ap);
	va_end(ap);
}

void
request_accepted(struct request *rq)
{
	struct m_reply m = {.status = 200};

	send_REPLY(mgr.apid, rq->id, &m, NULL, 0, -1);
	rq->id = 0;
}

size_t
send_sandbox(const struct request *rq, const struct box *box)
{
	struct m_sandbox m = {
	    .id = box->id,
	    .source_snapshot = box->source,
	    .created_us = box->created_us,
	    .expires_us = box->expires_us,
	    .nano_cpus = box->spec.nano_cpus,
	    .memory_mb = box->spec.memory_mb,
	    .pids_limit = box->spec.pids_limit,
	    .network = box->spec.network,
	    .read_only = box->spec.read_only,
	    .egress = box->spec.egress != NULL,
	    .labels_len = box->spec.labels.len,
	};
	size_t egress = box->spec.egress == NULL ? 0 : strlen(box->spec.egress);
	char tail[SANDBOX_TAIL_MAX];
	size_t n = strlen(box->spec.image) + 1;

	m.status = box->state == BOX_RUNNING || box->state == BOX_ROLLING_BACK ? SANDBOX_RUNNING
									       : SANDBOX_STOPPED;
	if (rq->admin)
		strlcpy(m.tenant, box->tenant->name, sizeof(m.tenant));
	memcpy(tail, box->spec.image, n);
	if (box->spec.labels.len > 0)
		memcpy(tail + n, box->spec.labels.bytes, box->spec.labels.len);
	n += box->spec.labels.len;
	if (egress > 0)
		memcpy(tail + n, box->spec.egress, egress);
	n += egress;
	send_SANDBOX(mgr.apid, rq->id, &m, tail, n, -1);
	return n;
}

size_t
send_snapshot(const struct request *rq, const struct snap *snap)
{
	struct m_snapshot m = {
	    .id = snap->id,
	    .sandbox = snap->sandbox,
	    .parent = snap->parent,
	    .created_us = snap->created_us,
	    .size_bytes = snap->size_bytes,
	    .stored_bytes = snap->stored_bytes,
	    .has_name = snap->name != NULL,
	};
	char tail[IMAGE_MAX + 1 + SNAPSHOT_NAME_MAX];
	size_t n = strlen(snap->spec.image) + 1, len = snap->name == NULL ? 0 : strlen(snap->name);

	memcpy(m.sha256, snap->sha256, sizeof(m.sha256));
	if (rq->admin)
		strlcpy(m.tenant, snap->tenant->name, sizeof(m.tenant));
	memcpy(tail, snap->spec.image, n);
	if (len > 0)
		memcpy(tail + n, snap->name, len);
	send_SNAPSHOT(mgr.apid, rq->id, &m, tail, n + len, -1);
	return n + len;
}

void
request_sandbox(struct request *rq, const struct box *box)
{
	if (rq->action != NULL)
		request_target(rq, "sb_", box->id);
	request_ended(rq, 200, NULL);
	if (rq->id != 0)
		send_sandbox(rq, box);
	rq->id = 0;
}

void
request_snapshot(struct request *rq, const struct snap *snap)
{
	request_ended(rq, 200, NULL);
	if (rq->id != 0)
		send_snapshot(rq, snap);
	rq->id = 0;
}

struct snap *
snap_seen(const struct request *rq, uint64_t id)
{
	struct snap *snap = snap_find(id);

	return snap != NULL && request_may_see(rq, snap->tenant) ? snap : NULL;
}

void
request_no_sandbox(struct request *rq, uint64_t id)
{
	char text[ID_TEXT_MAX];
	const char *why;

	id_text(text, "sb_", id);
	if (rq->detail && (why = gone_why(id, rq->admin ? NULL : rq->tenant)) != NULL)
		request_reply(rq, 410, "sandbox %s is gone (%s)", text, why);
	else
		request_reply(rq, 404, "sandbox %s not found", text);
}

void
request_no_snapshot(struct request *rq, uint64_t id)
{
	char text[ID_TEXT_MAX];

	request_reply(rq, 404, "snapshot %s not found", id_text(text, "snap_", id));
}

void
request_disk(struct request *rq)
{
	if (errno == ENOSPC || errno == EDQUOT)
		request_reply(rq, 507, "the server's data directory is full; nothing was changed");
	else
		request_reply(
		    rq, 502, "the server's data directory cannot be written; nothing was changed");
}
