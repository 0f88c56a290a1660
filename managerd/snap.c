/* Keeps the table of snapshots. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/ids.h"
#include "common/log.h"
#include "managerd/record.h"
#include "managerd/snap.h"
#include "managerd/store.h"

#define BUCKETS 16384

LIST_HEAD(bucket, snap);

struct snap_bytes {
	struct tenant *tenant;
	int64_t n;
	unsigned holders;
};

struct snap_list snaps = TAILQ_HEAD_INITIALIZER(snaps);
static struct bucket table[BUCKETS];
static size_t count;

struct snap_bytes *
snap_bytes_hold(const struct snap *snap)
{
	snap->bytes->holders++;
	return snap->bytes;
}

void
snap_bytes_drop(struct snap_bytes *bytes)
{
	if (bytes == NULL || --bytes->holders > 0)
		return;
	bytes->tenant->snapshot_bytes -= bytes->n;
	free(bytes);
}

/* It is its own first holder. */
static void
snap_bytes_begin(struct snap *snap)
{
	struct snap_bytes *bytes;

	if ((bytes = calloc(1, sizeof(*bytes))) == NULL)
		fatal("snapshot");
	bytes->tenant = snap->tenant;
	bytes->n = snap->stored_bytes + snap->record_bytes;
	bytes->holders = 1;
	bytes->tenant->snapshot_bytes += bytes->n;
	snap->bytes = bytes;
}

struct snap *
snap_new(uint64_t id)
{
	struct snap *snap;

	if ((snap = calloc(1, sizeof(*snap))) == NULL)
		fatal("snapshot");
	while (id == 0 || snap_find(id) != NULL)
		id = id_new();
	snap->id = id;
	snap->tenant = tenant_default();
	count++;
	return snap;
}

void
snap_free(struct snap *snap)
{
	if (snap_find(snap->id) == snap) {
		TAILQ_REMOVE(&snaps, snap, order);
		TAILQ_REMOVE(&snap->tenant->snaps, snap, own);
		snap_bytes_drop(snap->bytes);
		snap->tenant->nsnaps--;
		LIST_REMOVE(snap, bucket);
	}
	spec_clear(&snap->spec);
	free(snap->name);
	free(snap);
	count--;
}

size_t
snap_count(void)
{
	return count;
}

static int
snap_order(const void *a, const void *b)
{
	const struct snap *x = *(struct snap *const *)a, *y = *(struct snap *const *)b;

	if (x->created_us != y->created_us)
		return x->created_us < y->created_us ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

static void
snap_listed(struct snap *snap)
{
	LIST_INSERT_HEAD(&table[snap->id % BUCKETS], snap, bucket);
	snap_bytes_begin(snap);
	snap->tenant->nsnaps++;
	/* They may be a hundred times the rest, and only a fork needs them. */
	strings_clear(&snap->spec.env);
	strings_clear(&snap->spec.labels);
}

void
snap_list(struct snap *snap)
{
	struct snap *at;

	TAILQ_FOREACH_REVERSE(at, &snaps, snap_list, order)
	if (snap_order(&at, &snap) < 0)
		break;
	if (at == NULL)
		TAILQ_INSERT_HEAD(&snaps, snap, order);
	else
		TAILQ_INSERT_AFTER(&snaps, at, snap, order);
	TAILQ_FOREACH_REVERSE(at, &snap->tenant->snaps, snap_list, own)
	if (snap_order(&at, &snap) < 0)
		break;
	if (at == NULL)
		TAILQ_INSERT_HEAD(&snap->tenant->snaps, snap, own);
	else
		TAILQ_INSERT_AFTER(&snap->tenant->snaps, at, snap, own);
	snap_listed(snap);
}

void
snap_list_loaded(struct snap *snap)
{
	TAILQ_INSERT_TAIL(&snaps, snap, order);
	TAILQ_INSERT_TAIL(&snap->tenant->snaps, snap, own);
	snap_listed(snap);
}

void
snap_sort(void)
{
	struct snap **all, *snap;
	size_t i, n = 0;

	if ((all = reallocarray(NULL, count + 1, sizeof(struct snap *))) == NULL)
		fatal("snapshots");
	TAILQ_FOREACH (snap, &snaps, order)
		all[n++] = snap;
	qsort(all, n, sizeof(struct snap *), snap_order);
	TAILQ_INIT(&snaps);
	for (i = 0; i < n; i++)
		TAILQ_INIT(&all[i]->tenant->snaps);
	for (i = 0; i < n; i++) {
		TAILQ_INSERT_TAIL(&snaps, all[i], order);
		TAILQ_INSERT_TAIL(&all[i]->tenant->snaps, all[i], own);
	}
	free(all);
}

struct snap *
snap_find(uint64_t id)
{
	struct snap *snap;

	LIST_FOREACH (snap, &table[id % BUCKETS], bucket)
		if (snap->id == id)
			return snap;
	return NULL;
}

int
snap_spec(const struct snap *snap, struct spec *spec)
{
	struct snap got = {.id = snap->id};
	char name[STORE_NAME_MAX], *text;
	size_t len;
	int rc;

	text = store_read(
	    STORE_SNAPSHOTS, store_name(name, "snap_", snap->id, ".json"), RECORD_JSON_MAX, &len);
	if (text == NULL)
		return -1;
	rc = record_snap_decode(text, len, &got);
	free(text);
	free(got.name);
	if (rc == -1) {
		spec_clear(&got.spec);
		errno = EBADMSG;
	} else
		*spec = got.spec;
	return rc;
}

char *
snap_record(struct snap *snap)
{
	char *text = record_snap_encode(snap);

	snap->record_bytes = strlen(text);
	return text;
}

int
snap_save(const struct snap *snap, char *record)
{
	return store_record(STORE_SNAPSHOTS, "snap_", snap->id, record);
}
