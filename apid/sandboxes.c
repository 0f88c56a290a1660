/* The routes of sandboxes: create, list, get, delete, renew. */
#include <event2/buffer.h>
#include <string.h>
#include <unistd.h>

#include "apid/apid.h"
#include "apid/data.h"
#include "apid/env.h"
#include "apid/fields.h"
#include "apid/managerd.h"
#include "apid/object.h"
#include "apid/path.h"
#include "apid/route.h"

enum { CREATE_FIELDS(FIELD_X_NAME) F_COUNT };

static const struct field create_fields[] = {CREATE_FIELDS(FIELD_X_ROW)};

static uint8_t
tristate(const json_t *v)
{
	if (v == NULL)
		return NOT_GIVEN;
	return json_is_true(v) ? 1 : 0;
}

static int
check_image(const json_t *v, struct refusal *why)
{
	if (v == NULL)
		return 0;
	if (string_has_nul(v))
		return refuse(why, 400, "image: contains a NUL byte");
	if (json_string_length(v) == 0)
		return refuse(why, 400, "image: must not be empty");
	if (json_string_length(v) > IMAGE_MAX)
		return refuse(why, 400, "image: longer than %d bytes", IMAGE_MAX);
	return 0;
}

/* Checks the body and fills in what does not travel on the data socket. */
static int
read_create(json_t *body, struct m_create *m, json_t **v, struct refusal *why)
{
	size_t bytes;

	if (json_fields(body, create_fields, F_COUNT, v, why) == -1 ||
	    check_image(v[F_IMAGE], why) == -1 || env_check(v[F_ENV], &bytes, why) == -1 ||
	    labels_check(v[F_LABELS], why) == -1 || egress_check(v[F_EGRESS], why) == -1)
		return -1;
	if (v[F_CPUS] != NULL && (m->nano_cpus = json_scaled(v[F_CPUS], 1e9)) == -1)
		return refuse(why, 422, "cpus: must be a number > 0");
	m->memory_mb = json_int(v[F_MEMORY], 0);
	m->pids_limit = json_int(v[F_PIDS], 0);
	m->ttl_s = json_int(v[F_TIMEOUT], 0);
	m->network = tristate(v[F_NETWORK]);
	m->read_only = tristate(v[F_READ_ONLY]);
	m->egress = v[F_EGRESS] != NULL;
	return 0;
}

void
sandbox_create(struct req *r)
{
	struct m_create m = {0};
	json_t *v[F_COUNT];
	const char *image = NULL;
	size_t image_len = 0;
	int fd;

	if (read_create(r->json, &m, v, &r->refusal) == -1) {
		req_refuse(r, &r->refusal);
		return;
	}
	if (object_idempotency(r, &m) == -1)
		return;
	/* First, since a call that was opened must be sent. */
	if ((fd = object_create_data(v[F_ENV], v[F_LABELS], v[F_EGRESS])) == -1) {
		req_overloaded(r);
		return;
	}
	if (object_call(r, CALL_SANDBOX, object_answer_created, &m.ask) == -1) {
		close(fd);
		return;
	}
	if (v[F_IMAGE] != NULL) {
		image = json_string_value(v[F_IMAGE]);
		image_len = json_string_length(v[F_IMAGE]);
	}
	send_CREATE(apid.managerd, r->call, &m, image, image_len, fd);
}

static void
send_list(struct list *l, uint32_t max)
{
	(void)max;
	send_LIST(apid.managerd, l->call, &l->ask, l->label, l->label_len, -1);
}

/* ?label=name=value */
static int
read_label(struct req *r, struct list *l)
{
	char value[TARGET_MAX + 1], *eq;
	size_t n;

	switch (query_get(r->query, "label", value, &n)) {
	case QUERY_NONE:
		return 0;
	case QUERY_GIVEN:
		if ((eq = strchr(value, '=')) == NULL || strlen(value) != n || eq == value ||
		    eq - value > LABEL_NAME_MAX || n - (size_t)(eq + 1 - value) > LABEL_VALUE_MAX)
			break;
		*eq = '\0';
		memcpy(l->label, value, n);
		l->label_len = n;
		return 0;
	default:
		break;
	}
	req_error(r, 400, "label: must be name=value, and given once");
	return -1;
}

void
sandbox_list(struct req *r)
{
	struct list *l = list_new(r, "sandboxes", CALL_SANDBOXES, send_list);

	if (l != NULL && read_label(r, l) == 0)
		list_next(l);
}

void
sandbox_get(struct req *r)
{
	struct m_id m;

	if (object_ask_id(r, CALL_SANDBOX, object_answer_ok, &m) == 0)
		send_GET(apid.managerd, r->call, &m, NULL, 0, -1);
}

void
sandbox_delete(struct req *r)
{
	struct m_id m;

	if (object_ask_id(r, CALL_REPLY, object_answer_none, &m) == 0)
		send_DESTROY(apid.managerd, r->call, &m, NULL, 0, -1);
}

void
sandbox_timeout(struct req *r)
{
	static const struct field fields[] = {TIMEOUT_FIELDS(FIELD_X_ROW)};
	struct m_timeout m = {0};
	json_t *v;

	if (object_fields(r, fields, 1, &v) == -1)
		return;
	if (v == NULL) {
		req_error(r, 422, "timeout_seconds: must be given");
		return;
	}
	if (object_call(r, CALL_SANDBOX, object_answer_ok, &m.ask) == -1)
		return;
	m.sandbox = r->id;
	m.ttl_s = json_int(v, 0);
	send_SET_TIMEOUT(apid.managerd, r->call, &m, NULL, 0, -1);
}
