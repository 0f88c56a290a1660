/* The routes of snapshots: make, list, get, delete, roll back, fork. */
#include <event2/buffer.h>
#include <string.h>

#include "apid/apid.h"
#include "apid/env.h"
#include "apid/fields.h"
#include "apid/managerd.h"
#include "apid/object.h"
#include "apid/path.h"
#include "apid/route.h"
#include "common/ids.h"

static size_t
characters(const char *p, size_t n)
{
	size_t i, count = 0;

	for (i = 0; i < n; i++)
		count += ((unsigned char)p[i] & 0xc0) != 0x80;
	return count;
}

void
snapshot_make(struct req *r)
{
	static const struct field fields[] = {SNAPSHOT_FIELDS(FIELD_X_ROW)};
	struct m_snapshot_make m = {0};
	const char *name = NULL;
	size_t n = 0;
	json_t *v;

	if (object_fields(r, fields, 1, &v) == -1)
		return;
	if (v != NULL) {
		name = json_string_value(v);
		n = json_string_length(v);
		m.has_name = 1;
		if (string_has_nul(v)) {
			req_error(r, 400, "name: contains a NUL byte");
			return;
		}
		if (characters(name, n) > SNAPSHOT_CHARACTERS_MAX) {
			req_error(
			    r, 422, "name: longer than %d characters", SNAPSHOT_CHARACTERS_MAX);
			return;
		}
	}
	if (object_call(r, CALL_SNAPSHOT, object_answer_created, &m.ask) == -1)
		return;
	m.sandbox = r->id;
	send_SNAPSHOT_MAKE(apid.managerd, r->call, &m, name, n, -1);
}

static void
send_list(struct list *l, uint32_t max)
{
	(void)max;
	send_SNAPSHOTS(apid.managerd, l->call, &l->ask, NULL, 0, -1);
}

void
snapshot_list(struct req *r)
{
	struct list *l = list_new(r, "snapshots", CALL_SNAPSHOTS, send_list);
	char value[TARGET_MAX + 1];
	size_t n;

	if (l == NULL)
		return;
	switch (query_get(r->query, "sandbox_id", value, &n)) {
	case QUERY_BAD:
		req_error(r, 400, "sandbox_id: malformed");
		return;
	case QUERY_GIVEN:
		/* A malformed id is like an unknown one: an empty list. */
		if (strlen(value) != n || id_parse(value, "sb_", &l->ask.sandbox) == -1)
			l->ask.sandbox = UINT64_MAX;
		break;
	default:
		break;
	}
	list_next(l);
}

void
snapshot_get(struct req *r)
{
	struct m_id m;

	if (object_ask_id(r, CALL_SNAPSHOT, object_answer_ok, &m) == 0)
		send_SNAPSHOT_GET(apid.managerd, r->call, &m, NULL, 0, -1);
}

void
snapshot_delete(struct req *r)
{
	struct m_id m;

	if (object_ask_id(r, CALL_REPLY, object_answer_none, &m) == 0)
		send_SNAPSHOT_DELETE(apid.managerd, r->call, &m, NULL, 0, -1);
}

void
snapshot_rollback(struct req *r)
{
	static const struct field fields[] = {ROLLBACK_FIELDS(FIELD_X_ROW)};
	struct m_rollback m = {0};
	json_t *v;

	if (object_fields(r, fields, 1, &v) == -1)
		return;
	if (v == NULL) {
		req_error(r, 422, "snapshot_id: must be given");
		return;
	}
	if (string_has_nul(v) || id_parse(json_string_value(v), "snap_", &m.snapshot) == -1) {
		req_error(r, 404, "snapshot %.64s not found", json_string_value(v));
		return;
	}
	if (object_call(r, CALL_SANDBOX, object_answer_ok, &m.ask) == -1)
		return;
	m.sandbox = r->id;
	send_ROLLBACK(apid.managerd, r->call, &m, NULL, 0, -1);
}

enum { FORK_FIELDS(FIELD_X_NAME) F_COUNT };

static const struct field fork_fields[] = {FORK_FIELDS(FIELD_X_ROW)};

void
snapshot_fork(struct req *r)
{
	struct m_create m = {.network = NOT_GIVEN, .read_only = NOT_GIVEN};
	json_t *v[F_COUNT];

	if (object_fields(r, fork_fields, F_COUNT, v) == -1)
		return;
	if (v[F_CPUS] != NULL && (m.nano_cpus = json_scaled(v[F_CPUS], 1e9)) == -1) {
		req_error(r, 422, "cpus: must be a number > 0");
		return;
	}
	if (v[F_NETWORK] != NULL)
		m.network = json_is_true(v[F_NETWORK]) ? 1 : 0;
	m.memory_mb = json_int(v[F_MEMORY], 0);
	m.ttl_s = json_int(v[F_TIMEOUT], 0);
	m.snapshot = r->id;
	if (object_idempotency(r, &m) == -1)
		return;
	if (object_call(r, CALL_SANDBOX, object_answer_created, &m.ask) == -1)
		return;
	send_FORK(apid.managerd, r->call, &m, NULL, 0, -1);
}
