/* Writes the audit log. */
#include <event2/event.h>
#include <jansson.h>
#include <string.h>
#include <sys/wait.h>

#include "common/ids.h"
#include "common/log.h"
#include "managerd/audit.h"
#include "managerd/audit_fold.h"
#include "managerd/audit_log.h"
#include "managerd/audit_sign.h"
#include "managerd/keys.h"
#include "managerd/request.h"
#include "managerd/tenant.h"
#include "proto/dial.h"

#define REASONS_MAX 24
#define START_US 5000000 /* for a signature */
#define STOP_US 500000
#define CLOCK_JUMP_US (60 * INT64_C(1000000))

static int refused; /* in this second */

/* Refusals of this second without a line, by reason; the last one is for those beyond. */
static struct unseen {
	const char *reason;
	uint32_t status;
	uint64_t count;
} unseen[REASONS_MAX];

/* The text, or what is left of it when it is not UTF-8: apid's word may be anything. */
static json_t *
text_json(const char *text)
{
	json_t *s = json_string(text);

	return s != NULL ? s : json_string("(not UTF-8)");
}

static json_t *
name_json(const char *name)
{
	return name[0] == '\0' ? json_null() : json_string(name);
}

void
audit_request(const struct request *rq, uint32_t status, const int32_t *exit_code)
{
	json_t *entry;
	char hex[65];

	entry = json_pack("{s:o, s:o, s:s, s:o, s:s, s:s?, s:i, s:I}", "request_id",
	    text_json(rq->request_id), "key", name_json(rq->key_name), "tenant", rq->tenant->name,
	    "peer", text_json(rq->peer), "action", rq->action, "target",
	    rq->target[0] == '\0' ? NULL : rq->target, "status", (int)status, "duration_us",
	    (json_int_t)(time_boot_us() - rq->began_us));
	if (entry != NULL && rq->has_args) {
		hex_encode(rq->args_sha256, sizeof(rq->args_sha256), hex);
		json_object_set_new(entry, "args_sha256", json_string(hex));
		json_object_set_new(entry, "args_len", json_integer(rq->args_len));
		if (exit_code != NULL)
			json_object_set_new(entry, "exit_code", json_integer(*exit_code));
	}
	audit_log_put(entry);
}

/* The reasons are constants: those of one are one string. */
void
audit_unseen(uint32_t status, const char *reason)
{
	struct unseen *u = unseen;

	while (u->count > 0 && u < &unseen[REASONS_MAX - 1] &&
	       (u->reason != reason || u->status != status))
		u++;
	u->reason = reason;
	u->status = status;
	u->count++;
}

void
audit_refused(const struct m_ask *ask, const struct key *key, const char *action, uint32_t status,
    const char *reason)
{
	if (refused >= AUDIT_REFUSALS || audit_stuck()) {
		audit_unseen(status, reason);
		return;
	}
	refused++;
	audit_log_put(json_pack("{s:o, s:o, s:s?, s:o, s:s, s:n, s:i, s:s}", "request_id",
	    text_json(ask->request_id), "key", name_json(key != NULL ? key->k.name : ""), "tenant",
	    key != NULL ? key->tenant->name : NULL, "peer", text_json(ask->peer), "action", action,
	    "target", "status", (int)status, "reason", reason));
}

void
audit_own(const char *action, const char *target, const char *why)
{
	audit_log_put(
	    json_pack("{s:s, s:s, s:s}", "action", action, "target", target, "reason", why));
}

static json_t *
count_json(int64_t n)
{
	return n < 0 ? json_null() : json_integer((json_int_t)n);
}

void
audit_dial(const struct audit_dial *d)
{
	static const char *const verdicts[] = {
	    [DIAL_OK] = "ok", [DIAL_REFUSED] = "refused", [DIAL_FAILED] = "failed"};
	char id[ID_TEXT_MAX];
	json_t *name, *address;

	if ((name = json_stringn(d->name, d->name_len)) == NULL)
		name = json_string("(not UTF-8)");
	address = d->address[0] == '\0' ? json_null() : text_json(d->address);
	audit_log_put(json_pack("{s:s, s:s, s:o, s:o, s:i, s:s, s:o, s:o, s:o, s:I}", "action",
	    "egress", "target", id_text(id, "sb_", d->sandbox), "name", name, "address", address,
	    "port", (int)d->port, "verdict", verdicts[d->verdict], "reason", text_json(d->why),
	    "bytes_in", count_json(d->bytes_in), "bytes_out", count_json(d->bytes_out),
	    "duration_us", (json_int_t)d->duration_us));
}

void
audit_dials(uint64_t sandbox, unsigned count)
{
	char id[ID_TEXT_MAX];

	audit_log_put(json_pack("{s:s, s:s, s:i, s:s}", "action", "egress", "target",
	    id_text(id, "sb_", sandbox), "count", (int)count, "reason",
	    "not let out, too many in a second for lines of their own"));
}

void
audit_start(const char *settings_sha256)
{
	audit_log_put(json_pack("{s:s, s:s, s:s}", "action", "start", "version", VERSION,
	    "settings_sha256", settings_sha256));
	audit_sign_now(START_US);
}

void
audit_died(const char *program, uint64_t sandbox, int status)
{
	char id[ID_TEXT_MAX];
	int killed = WIFSIGNALED(status);

	audit_log_put(json_pack("{s:s, s:s, s:i}", "action", sandbox != 0 ? "session_died" : "died",
	    "target", sandbox != 0 ? id_text(id, "sb_", sandbox) : program,
	    killed ? "signal" : "status", killed ? WTERMSIG(status) : WEXITSTATUS(status)));
}

void
audit_reload(const char *what, const char *why)
{
	json_t *entry =
	    json_pack("{s:s, s:s, s:b}", "action", "reload", "target", what, "ok", why == NULL);

	if (entry != NULL)
		json_object_set_new(entry, "reason", why == NULL ? json_null() : text_json(why));
	audit_log_put(entry);
}

/* The sums of what had no line of its own. */
static void
tell_sums(void)
{
	struct unseen *u;

	for (u = unseen; u < &unseen[REASONS_MAX]; u++) {
		if (u->count == 0)
			continue;
		audit_log_put(json_pack("{s:s, s:I, s:i, s:s}", "action", "refusals", "count",
		    (json_int_t)u->count, "status", (int)u->status, "reason", u->reason));
		u->count = 0;
	}
	audit_fold_tell();
}

void
audit_stop(void)
{
	static int stopped;

	if (stopped++)
		return;
	tell_sums();
	audit_log_put(json_pack("{s:s}", "action", "stop"));
	audit_sign_now(STOP_US);
}

/* What is said about time afterwards means another. */
static void
clock_look(void)
{
	static int64_t before;
	int64_t now = time_wall_us() - time_boot_us(), jump = before == 0 ? 0 : now - before;

	before = now;
	if (jump > CLOCK_JUMP_US || jump < -CLOCK_JUMP_US)
		audit_log_put(
		    json_pack("{s:s, s:I}", "action", "clock", "jump_us", (json_int_t)jump));
}

void
audit_tick(void)
{
	clock_look();
	audit_log_tick();
	audit_sign_tick();
	if (!audit_stuck())
		tell_sums();
	refused = 0;
}

static void
tick(evutil_socket_t s, short what, void *arg)
{
	(void)s, (void)what, (void)arg;
	audit_tick();
}

void
audit_open(const struct audit_rules *rules, struct event_base *base)
{
	struct timeval second = {1, 0};
	struct event *ev;

	audit_log_open(rules, base);
	if (base == NULL)
		return;
	if ((ev = event_new(base, -1, EV_PERSIST, tick, NULL)) == NULL ||
	    event_add(ev, &second) == -1)
		fatalx("audit: out of memory");
}
