/* Writes the audit log. */
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <jansson.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/ids.h"
#include "common/log.h"
#include "managerd/audit.h"
#include "managerd/keys.h"
#include "managerd/request.h"
#include "managerd/tenant.h"
#include "proto/dial.h"

#define REASONS_MAX 24

static int fd = -1;
static off_t size;    /* of the whole lines */
static char prev[65]; /* SHA-256 of the last one */
static uint64_t lost; /* lines that could not be written */
static int dirty;
static int refused; /* in this second */

/* Refusals of this second without a line, by reason; the last one is for those beyond. */
static struct unseen {
	const char *reason;
	uint32_t status;
	uint64_t count;
} unseen[REASONS_MAX];

static void
hash_line(const char *line, size_t len)
{
	uint8_t digest[32];

	SHA256((const unsigned char *)line, len, digest);
	hex_encode(digest, sizeof(digest), prev);
}

/* Takes the entry, adds time and prev, and appends it whole or not at all. */
static void
audit_append(json_t *entry)
{
	char when[TIME_TEXT_MAX];
	char *line;
	size_t len;
	ssize_t n;

	if (entry == NULL)
		fatalx("audit: out of memory");
	json_object_set_new(entry, "time", json_string(time_text(when, time_wall_us())));
	if (lost > 0)
		json_object_set_new(entry, "lost", json_integer(lost));
	json_object_set_new(entry, "prev", json_string(prev));
	if ((line = json_dumps(entry, JSON_COMPACT)) == NULL ||
	    (len = strlen(line)) > AUDIT_LINE_MAX)
		fatalx("audit: a line that cannot be written");
	json_decref(entry);
	line[len] = '\n';
	n = write(fd, line, len + 1);
	if (n != (ssize_t)len + 1) {
		if (lost++ == 0)
			log_warn("the audit log cannot be written");
		if (n > 0 && ftruncate(fd, size) == -1)
			log_warn("the audit log cannot be cut");
	} else {
		hash_line(line, len);
		size += len + 1;
		lost = 0;
		dirty = 1;
	}
	free(line);
}

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
	audit_append(entry);
}

/* The reasons are constants: those of one are one string. */
static void
count_unseen(uint32_t status, const char *reason)
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
	if (refused >= AUDIT_REFUSALS) {
		count_unseen(status, reason);
		return;
	}
	refused++;
	audit_append(json_pack("{s:o, s:o, s:s?, s:o, s:s, s:n, s:i, s:s}", "request_id",
	    text_json(ask->request_id), "key", name_json(key != NULL ? key->k.name : ""), "tenant",
	    key != NULL ? key->tenant->name : NULL, "peer", text_json(ask->peer), "action", action,
	    "target", "status", (int)status, "reason", reason));
}

void
audit_own(const char *action, const char *target, const char *why)
{
	audit_append(
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
	audit_append(json_pack("{s:s, s:s, s:o, s:o, s:i, s:s, s:o, s:o, s:o, s:I}", "action",
	    "egress", "target", id_text(id, "sb_", d->sandbox), "name", name, "address", address,
	    "port", (int)d->port, "verdict", verdicts[d->verdict], "reason", text_json(d->why),
	    "bytes_in", count_json(d->bytes_in), "bytes_out", count_json(d->bytes_out),
	    "duration_us", (json_int_t)d->duration_us));
}

void
audit_dials(uint64_t sandbox, unsigned count)
{
	char id[ID_TEXT_MAX];

	audit_append(json_pack("{s:s, s:s, s:i, s:s}", "action", "egress", "target",
	    id_text(id, "sb_", sandbox), "count", (int)count, "reason",
	    "not let out, too many in a second for lines of their own"));
}

void
audit_tick(void)
{
	struct unseen *u;

	for (u = unseen; u < &unseen[REASONS_MAX] && u->count > 0; u++) {
		audit_append(json_pack("{s:s, s:I, s:i, s:s}", "action", "refusals", "count",
		    (json_int_t)u->count, "status", (int)u->status, "reason", u->reason));
		u->count = 0;
	}
	refused = 0;
	if (dirty && fdatasync(fd) == -1)
		log_warn("the audit log");
	dirty = 0;
}

static void
tick(evutil_socket_t s, short what, void *arg)
{
	(void)s, (void)what, (void)arg;
	audit_tick();
}

/* Sets size and prev by the last whole line; torn bytes behind it are cut and told of. */
static void
audit_recover(void)
{
	char buf[AUDIT_LINE_MAX * 2 + 2];
	struct stat st;
	ssize_t n, end, begin;
	off_t at;

	if (fstat(fd, &st) == -1 || !S_ISREG(st.st_mode))
		fatal_config("audit.log in the data directory is not a file");
	memset(prev, '0', 64);
	at = st.st_size > (off_t)sizeof(buf) ? st.st_size - (off_t)sizeof(buf) : 0;
	if ((n = pread(fd, buf, sizeof(buf), at)) == -1)
		fatal_config("audit.log in the data directory: %s", strerror(errno));
	for (end = n; end > 0 && buf[end - 1] != '\n';)
		end--;
	if (end == 0 && at > 0)
		fatal_config("audit.log in the data directory is damaged; move it away");
	for (begin = end > 0 ? end - 1 : 0; begin > 0 && buf[begin - 1] != '\n';)
		begin--;
	size = at + end;
	if (end > 0)
		hash_line(buf + begin, end - 1 - begin);
	if (end == n)
		return;
	if (ftruncate(fd, size) == -1)
		fatal_config("audit.log in the data directory: %s", strerror(errno));
	audit_append(json_pack("{s:s, s:i}", "action", "recovered", "torn_bytes", (int)(n - end)));
}

void
audit_open(struct event_base *base)
{
	struct timeval second = {1, 0};
	struct event *ev;

	if ((fd = open(AUDIT_FILE, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600)) ==
	    -1)
		fatal_config("audit.log in the data directory: %s", strerror(errno));
	audit_recover();
	if (base == NULL)
		return;
	if ((ev = event_new(base, -1, EV_PERSIST, tick, NULL)) == NULL ||
	    event_add(ev, &second) == -1)
		fatalx("audit: out of memory");
}
