/* Reads and writes the records of sandboxes and snapshots. */
#include <bsd/string.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "common/egress.h"
#include "common/ids.h"
#include "common/log.h"
#include "managerd/box.h"
#include "managerd/record.h"
#include "managerd/snap.h"
#include "proto/apid_managerd.h"

static json_t *
strings_encode(const struct strings *s)
{
	json_t *list = json_array();
	const char *p = s->bytes, *end = strings_end(s);

	for (; p < end; p += strlen(p) + 1)
		if (json_array_append_new(list, json_string(p)) == -1)
			fatalx("record: out of memory, or text that is not UTF-8");
	return list;
}

static int
strings_decode(json_t *list, struct strings *s)
{
	json_t *item;
	size_t i;

	if (!json_is_array(list) || json_array_size(list) > ENV_MAX)
		return -1;
	json_array_foreach (list, i, item) {
		if (!json_is_string(item) ||
		    strlen(json_string_value(item)) != json_string_length(item))
			return -1;
		strings_add(s, json_string_value(item), json_string_length(item));
	}
	return 0;
}

static json_t *
spec_encode(const struct spec *spec)
{
	return json_pack("{s:s, s:I, s:I, s:I, s:b, s:b, s:s*, s:o, s:o}", "image", spec->image,
	    "nano_cpus", (json_int_t)spec->nano_cpus, "memory_mb", (json_int_t)spec->memory_mb,
	    "pids_limit", (json_int_t)spec->pids_limit, "network", spec->network, "read_only",
	    spec->read_only, "egress", spec->egress, "env", strings_encode(&spec->env), "labels",
	    strings_encode(&spec->labels));
}

static int
spec_decode(json_t *from, struct spec *spec)
{
	const char *image, *egress = NULL;
	json_t *env, *labels;
	json_int_t cpus, memory, pids;
	int network, read_only;

	if (json_unpack(from, "{s:s, s:I, s:I, s:I, s:b, s:b, s?s, s:o, s:o !}", "image", &image,
		"nano_cpus", &cpus, "memory_mb", &memory, "pids_limit", &pids, "network", &network,
		"read_only", &read_only, "egress", &egress, "env", &env, "labels", &labels) != 0)
		return -1;
	if (*image == '\0' || strlen(image) > IMAGE_MAX || cpus <= 0 || memory <= 0 || pids <= 0)
		return -1;
	spec->nano_cpus = cpus;
	spec->memory_mb = memory;
	spec->pids_limit = pids;
	spec->network = network != 0;
	spec->read_only = read_only != 0;
	if (egress != NULL &&
	    (strlen(egress) > EGRESS_TEXT_MAX || !egress_list_valid(egress, strlen(egress))))
		return -1;
	if ((spec->image = strdup(image)) == NULL ||
	    (egress != NULL && (spec->egress = strdup(egress)) == NULL))
		fatal("record");
	if (strings_decode(env, &spec->env) == -1 || strings_decode(labels, &spec->labels) == -1)
		return -1;
	return spec_env_check(&spec->env) == -1 || spec_labels_check(&spec->labels) == -1 ? -1 : 0;
}

static json_t *
idem_encode(const struct idem *idem)
{
	char key[65], body[65];

	if (!idem->given)
		return json_null();
	hex_encode(idem->key, sizeof(idem->key), key);
	hex_encode(idem->body, sizeof(idem->body), body);
	return json_pack(
	    "{s:s, s:s, s:I}", "key", key, "body", body, "at_us", (json_int_t)idem->at_us);
}

static int
idem_decode(json_t *from, struct idem *idem)
{
	const char *key, *body;
	json_int_t at;

	if (json_is_null(from))
		return 0;
	if (json_unpack(from, "{s:s, s:s, s:I !}", "key", &key, "body", &body, "at_us", &at) != 0 ||
	    hex_decode(key, idem->key, sizeof(idem->key)) == -1 ||
	    hex_decode(body, idem->body, sizeof(idem->body)) == -1)
		return -1;
	idem->at_us = at;
	idem->given = 1;
	return 0;
}

static json_t *
id_encode(const char *prefix, uint64_t id)
{
	char text[ID_TEXT_MAX];

	return id == 0 ? json_null() : json_string(id_text(text, prefix, id));
}

static int
id_decode(json_t *from, const char *prefix, uint64_t *id)
{
	*id = 0;
	if (json_is_null(from))
		return 0;
	return json_is_string(from) ? id_parse(json_string_value(from), prefix, id) : -1;
}

static char *
text_of(json_t *root)
{
	char *text = root == NULL ? NULL : json_dumps(root, JSON_INDENT(1));

	if (text == NULL)
		fatalx("record: out of memory, or text that is not UTF-8");
	json_decref(root);
	return text;
}

char *
record_box_encode(const struct box *box)
{
	return text_of(json_pack(
	    "{s:i, s:o, s:s, s:I, s:I, s:s, s:I, s:I, s:I, s:s, s:o, s:o, s:o, s:s, s:o*, s:o*}",
	    "version", RECORD_VERSION, "id", id_encode("sb_", box->id), "state",
	    box_state_name(box->state), "generation", (json_int_t)box->generation, "top_generation",
	    (json_int_t)box->top, "container", box->container, "created_us",
	    (json_int_t)box->created_us, "expires_us", (json_int_t)box->expires_us, "deadline_us",
	    (json_int_t)box->deadline_us, "boot", box->boot, "source_snapshot",
	    id_encode("snap_", box->source), "idempotency", idem_encode(&box->idem), "spec",
	    spec_encode(&box->spec), "tenant", box->tenant->name, "renewing",
	    box->renewing ? json_true() : NULL, "pool",
	    box->pool != 0 ? id_encode("pool_", box->pool) : NULL));
}

char *
record_snap_encode(const struct snap *snap)
{
	char sha256[65];

	hex_encode(snap->sha256, sizeof(snap->sha256), sha256);
	return text_of(json_pack("{s:i, s:o, s:o, s:o, s:I, s:I, s:I, s:s, s:s?, s:o, s:s}",
	    "version", RECORD_VERSION, "id", id_encode("snap_", snap->id), "sandbox",
	    id_encode("sb_", snap->sandbox), "parent", id_encode("snap_", snap->parent),
	    "created_us", (json_int_t)snap->created_us, "size_bytes", (json_int_t)snap->size_bytes,
	    "stored_bytes", (json_int_t)snap->stored_bytes, "sha256", sha256, "name", snap->name,
	    "spec", spec_encode(&snap->spec), "tenant", snap->tenant->name));
}

static int
state_decode(const char *name, enum box_state *state)
{
	int i;

	for (i = 0; i < BOX_STATES; i++)
		if (strcmp(name, box_state_name(i)) == 0) {
			*state = i;
			return 0;
		}
	return -1;
}

static int
container_decode(const char *text, char *container, size_t size)
{
	uint8_t id[CONTAINER_ID_LEN / 2];

	if (*text != '\0' && hex_decode(text, id, sizeof(id)) == -1)
		return -1;
	strlcpy(container, text, size);
	return 0;
}

/* One without a name was made before there were tenants. */
static int
tenant_decode(const char *name, struct tenant **tenant)
{
	if (name != NULL && !keys_name_valid(name))
		return -1;
	*tenant = name != NULL ? tenant_get(name) : tenant_default();
	return 0;
}

static int
box_decode(json_t *root, struct box *box)
{
	json_t *id, *source, *idem, *spec, *pool = NULL;
	json_int_t generation, top, created, expires, deadline;
	const char *state, *container, *boot, *tenant = NULL;
	uint64_t got;
	int version;

	if (json_unpack(root,
		"{s:i, s:o, s:s, s:I, s:I, s:s, s:I, s:I, s:I, s:s, s:o, s:o, s:o, s?s, s?b, s?o "
		"!}",
		"version", &version, "id", &id, "state", &state, "generation", &generation,
		"top_generation", &top, "container", &container, "created_us", &created,
		"expires_us", &expires, "deadline_us", &deadline, "boot", &boot, "source_snapshot",
		&source, "idempotency", &idem, "spec", &spec, "tenant", &tenant, "renewing",
		&box->renewing, "pool", &pool) != 0)
		return -1;
	if (version != RECORD_VERSION || id_decode(id, "sb_", &got) == -1 || got != box->id)
		return -1;
	if (tenant_decode(tenant, &box->tenant) == -1)
		return -1;
	if (pool != NULL && id_decode(pool, "pool_", &box->pool) == -1)
		return -1;
	if (generation < 1 || top < generation || top > UINT32_MAX || created < 0 || expires < 0)
		return -1;
	box->generation = generation;
	box->top = top;
	box->created_us = created;
	box->expires_us = expires;
	box->deadline_us = deadline;
	strlcpy(box->boot, boot, sizeof(box->boot));
	if (state_decode(state, &box->state) == -1 ||
	    container_decode(container, box->container, sizeof(box->container)) == -1 ||
	    id_decode(source, "snap_", &box->source) == -1 || idem_decode(idem, &box->idem) == -1)
		return -1;
	return spec_decode(spec, &box->spec);
}

static int
snap_decode(json_t *root, struct snap *snap)
{
	json_t *id, *sandbox, *parent, *name, *spec;
	json_int_t created, size, stored;
	const char *sha256, *tenant = NULL;
	uint64_t got;
	int version;

	if (json_unpack(root, "{s:i, s:o, s:o, s:o, s:I, s:I, s:I, s:s, s:o, s:o, s?s !}",
		"version", &version, "id", &id, "sandbox", &sandbox, "parent", &parent,
		"created_us", &created, "size_bytes", &size, "stored_bytes", &stored, "sha256",
		&sha256, "name", &name, "spec", &spec, "tenant", &tenant) != 0)
		return -1;
	if (version != RECORD_VERSION || id_decode(id, "snap_", &got) == -1 || got != snap->id)
		return -1;
	if (id_decode(sandbox, "sb_", &snap->sandbox) == -1 ||
	    id_decode(parent, "snap_", &snap->parent) == -1 ||
	    hex_decode(sha256, snap->sha256, sizeof(snap->sha256)) == -1)
		return -1;
	if (tenant_decode(tenant, &snap->tenant) == -1)
		return -1;
	if (snap->sandbox == 0 || created < 0 || size < 0 || stored < 0)
		return -1;
	snap->created_us = created;
	snap->size_bytes = size;
	snap->stored_bytes = stored;
	if (!json_is_null(name)) {
		if (!json_is_string(name) || json_string_length(name) > SNAPSHOT_NAME_MAX ||
		    strlen(json_string_value(name)) != json_string_length(name))
			return -1;
		if ((snap->name = strdup(json_string_value(name))) == NULL)
			fatal("record");
	}
	return spec_decode(spec, &snap->spec);
}

int
record_box_decode(const char *text, size_t len, struct box *box)
{
	json_t *root;
	int rc;

	if ((root = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL)) == NULL)
		return -1;
	rc = box_decode(root, box);
	json_decref(root);
	return rc;
}

int
record_snap_decode(const char *text, size_t len, struct snap *snap)
{
	json_t *root;
	int rc;

	if ((root = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL)) == NULL)
		return -1;
	rc = snap_decode(root, snap);
	json_decref(root);
	return rc;
}
