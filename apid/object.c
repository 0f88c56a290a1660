/* JSON of sandboxes and snapshots (object.h). */
#include <event2/buffer.h>
#include <stdlib.h>
#include <string.h>

#include "apid/apid.h"
#include "apid/auth.h"
#include "apid/data.h"
#include "apid/json_out.h"
#include "apid/object.h"
#include "apid/route.h"
#include "common/ids.h"
#include "common/log.h"

/* The next NUL-terminated piece of a tail; *p moves behind it. managerd is ours: a tail that does
 * not fit is fatal. */
static const char *
piece(const char **p, const char *end)
{
	const char *start = *p, *nul;

	if (start >= end)
		return NULL;
	nul = memchr(start, '\0', (size_t)(end - start) + 1); /* one stands behind every tail */
	if (nul == NULL)
		fatalx("managerd sent a malformed tail");
	*p = nul + 1;
	return start;
}

/* Entries with '\n' between them. */
static void
egress_list(struct evbuffer *out, const char *list, size_t n)
{
	const char *end = list + n, *newline;

	evbuffer_add(out, "[", 1);
	for (; list < end; list = newline + 1) {
		if ((newline = memchr(list, '\n', (size_t)(end - list))) == NULL)
			newline = end;
		out_string(out, list, (size_t)(newline - list));
		if (newline < end)
			evbuffer_add(out, ",", 1);
	}
	evbuffer_add(out, "]", 1);
}

void
object_egress(struct evbuffer *out, const struct m_sandbox *s, const char *tail, size_t n)
{
	size_t before = strlen(tail) + 1 + s->labels_len; /* a NUL stands behind every tail */

	if (before > n)
		before = n;
	egress_list(out, tail + before, n - before);
}

/* Only who may see every tenant is told. */
static void
tenant(struct evbuffer *out, const char name[64])
{
	if (memchr(name, '\0', 64) == NULL)
		fatalx("managerd sent text without an end");
	if (name[0] == '\0')
		return;
	evbuffer_add_printf(out, ",\"tenant\":");
	out_cstring(out, name);
}

void
object_sandbox(struct evbuffer *out, const struct m_sandbox *s, const char *tail, size_t n)
{
	char id[ID_TEXT_MAX], source[ID_TEXT_MAX], created[TIME_TEXT_MAX], expires[TIME_TEXT_MAX];
	const char *p = tail, *end = tail + n, *labels_end, *name, *value, *comma = "";

	evbuffer_add_printf(out,
	    "{\"id\":\"%s\",\"status\":\"%s\",\"image\":", id_text(id, "sb_", s->id),
	    s->status == SANDBOX_RUNNING ? "running" : "stopped");
	name = piece(&p, end);
	out_cstring(out, name != NULL ? name : "");
	evbuffer_add(out, ",\"cpus\":", 8);
	out_nano(out, s->nano_cpus);
	evbuffer_add_printf(out,
	    ",\"memory_mb\":%lld,\"pids_limit\":%lld,\"network\":%s,\"read_only_rootfs\":%s,"
	    "\"created_at\":\"%s\",\"expires_at\":\"%s\",\"source_snapshot_id\":%s%s%s,\"labels\":"
	    "{",
	    (long long)s->memory_mb, (long long)s->pids_limit, s->network ? "true" : "false",
	    s->read_only ? "true" : "false", time_text(created, s->created_us),
	    time_text(expires, s->expires_us), s->source_snapshot ? "\"" : "",
	    s->source_snapshot ? id_text(source, "snap_", s->source_snapshot) : "null",
	    s->source_snapshot ? "\"" : "");
	if (p > end || s->labels_len > (size_t)(end - p))
		fatalx("managerd sent a malformed tail");
	labels_end = p + s->labels_len;
	while ((name = piece(&p, labels_end)) != NULL && (value = piece(&p, labels_end)) != NULL) {
		evbuffer_add(out, comma, strlen(comma));
		out_cstring(out, name);
		evbuffer_add(out, ":", 1);
		out_cstring(out, value);
		comma = ",";
	}
	evbuffer_add_printf(out, "},\"backend\":\"docker\",\"egress_allowlist\":");
	if (s->egress)
		egress_list(out, labels_end, (size_t)(end - labels_end));
	else
		evbuffer_add(out, "null", 4);
	tenant(out, s->tenant);
	evbuffer_add(out, "}", 1);
}

void
object_snapshot(struct evbuffer *out, const struct m_snapshot *s, const char *tail, size_t n)
{
	char id[ID_TEXT_MAX], sandbox[ID_TEXT_MAX], parent[ID_TEXT_MAX], created[TIME_TEXT_MAX];
	char hash[65];
	const char *p = tail, *end = tail + n, *image = piece(&p, end);

	evbuffer_add_printf(out,
	    "{\"id\":\"%s\",\"sandbox_id\":\"%s\",\"name\":", id_text(id, "snap_", s->id),
	    id_text(sandbox, "sb_", s->sandbox));
	if (s->has_name)
		out_string(out, p <= end ? p : "", p <= end ? (size_t)(end - p) : 0);
	else
		evbuffer_add(out, "null", 4);
	evbuffer_add(out, ",\"image\":", 9);
	out_cstring(out, image != NULL ? image : "");
	hex_encode(s->sha256, sizeof(s->sha256), hash);
	evbuffer_add_printf(out,
	    ",\"size_bytes\":%lld,\"created_at\":\"%s\",\"parent_snapshot_id\":%s%s%s,"
	    "\"stored_bytes\":%lld,\"sha256\":\"%s\"",
	    (long long)s->size_bytes, time_text(created, s->created_us), s->parent ? "\"" : "",
	    s->parent ? id_text(parent, "snap_", s->parent) : "null", s->parent ? "\"" : "",
	    (long long)s->stored_bytes, hash);
	tenant(out, s->tenant);
	evbuffer_add(out, "}", 1);
}

static void
answer(struct req *r, const struct answer *a, int status)
{
	struct evbuffer *out;

	r->call = 0;
	if (a->type == MSG_REPLY) {
		req_pass_on(r, a);
		return;
	}
	out = buffer_new();
	if (a->type == MSG_SANDBOX)
		object_sandbox(out, a->payload, a->tail, a->tail_len);
	else
		object_snapshot(out, a->payload, a->tail, a->tail_len);
	req_reply(r, status, out);
}

void
object_answer_ok(void *arg, const struct answer *a)
{
	answer(arg, a, 200);
}

void
object_answer_created(void *arg, const struct answer *a)
{
	answer(arg, a, 201);
}

void
object_answer_none(void *arg, const struct answer *a)
{
	struct req *r = arg;
	const struct m_reply *reply = a->payload;

	r->call = 0;
	if (reply->status == 200 || reply->status == 204)
		req_reply(r, 204, NULL);
	else
		req_pass_on(r, a);
}

void
object_unknown(struct req *r)
{
	const char *what =
	    strstr(r->route->pattern, "{sandbox_id}") != NULL ? "sandbox" : "snapshot";

	req_error(r, 404, "%s %.*s not found", what, (int)(r->id_text.n < 64 ? r->id_text.n : 64),
	    r->id_text.p);
}

int
object_fields(struct req *r, const struct field *field, size_t n, json_t **value)
{
	if (r->id == 0) {
		object_unknown(r);
		return -1;
	}
	if (json_fields(r->json, field, n, value, &r->refusal) == 0)
		return 0;
	req_refuse(r, &r->refusal);
	return -1;
}

int
object_call(struct req *r, enum call_kind kind, call_cb cb, struct m_ask *ask)
{
	if ((r->call = call_new(kind, cb, r)) == 0) {
		req_overloaded(r);
		return -1;
	}
	req_ask(r, ask);
	return 0;
}

int
object_ask_id(struct req *r, enum call_kind kind, call_cb cb, struct m_id *m)
{
	memset(m, 0, sizeof(*m));
	m->id = r->id;
	if (r->id != 0)
		return object_call(r, kind, cb, &m->ask);
	object_unknown(r);
	return -1;
}

int
object_idempotency(struct req *r, struct m_create *m)
{
	struct slice key = r->head.field[FIELD_IDEMPOTENCY_KEY];
	uint8_t parts[64];

	if (key.p == NULL)
		return 0;
	if (key.n == 0 || key.n > 255) {
		req_error(r, 400, "Idempotency-Key: must have 1 to 255 characters");
		return -1;
	}
	m->has_idem = 1;
	sha256(key.p, key.n, m->idem_key);
	sha256(r->path.p, r->path.n, parts);
	if (r->body != NULL)
		sha256(evbuffer_pullup(r->body, -1), evbuffer_get_length(r->body), parts + 32);
	else
		sha256("", 0, parts + 32);
	sha256(parts, sizeof(parts), m->idem_body);
	return 0;
}

int
object_create_data(json_t *env, json_t *labels, json_t *egress)
{
	struct r_done done = {0};
	struct evbuffer *out = buffer_new();
	const char *name;
	json_t *v;
	size_t i;
	int fd;

	json_object_foreach (env, name, v) {
		data_record_header(out, RECORD_ENV, strlen(name) + 1 + json_string_length(v));
		evbuffer_add(out, name, strlen(name));
		evbuffer_add(out, "=", 1);
		evbuffer_add(out, json_string_value(v), json_string_length(v));
	}
	json_object_foreach (labels, name, v) {
		data_record_header(out, RECORD_LABEL, strlen(name) + 1 + json_string_length(v));
		evbuffer_add(out, name, strlen(name) + 1);
		evbuffer_add(out, json_string_value(v), json_string_length(v));
	}
	json_array_foreach (egress, i, v) {
		data_record_header(out, RECORD_EGRESS, json_string_length(v));
		evbuffer_add(out, json_string_value(v), json_string_length(v));
	}
	data_record_header(out, RECORD_DONE, sizeof(done));
	evbuffer_add(out, &done, sizeof(done));
	fd = data_prewritten(out);
	evbuffer_free(out);
	return fd;
}
