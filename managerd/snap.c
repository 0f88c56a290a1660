/* Keeps the table of snapshots. */
#include <stdlib.h>

#include "common/ids.h"
#include "common/log.h"
#include "managerd/record.h"
#include "managerd/snap.h"
#include "managerd/store.h"

#define BUCKETS 1024

LIST_HEAD(bucket, snap);

struct snap_list snaps = TAILQ_HEAD_INITIALIZER(snaps);
static struct bucket table[BUCKETS];

struct snap *
snap_new(uint64_t id)
{
	struct snap *snap;

	if ((snap = calloc(1, sizeof(*snap))) == NULL)
		fatal("snapshot");
	while (id == 0 || snap_find(id) != NULL)
		id = id_new();
	snap->id = id;
	return snap;
}

void
snap_free(struct snap *snap)
{
	if (snap_find(snap->id) == snap) {
		TAILQ_REMOVE(&snaps, snap, order);
		LIST_REMOVE(snap, bucket);
	}
	spec_clear(&snap->spec);
	free(snap->name);
	free(snap);
}

void
snap_list(struct snap *snap)
{
	struct snap *at;

	TAILQ_FOREACH_REVERSE(at, &snaps, snap_list, order)
	if (at->created_us < snap->created_us ||
	    (at->created_us == snap->created_us && at->id < snap->id))
		break;
	if (at == NULL)
		TAILQ_INSERT_HEAD(&snaps, snap, order);
	else
		TAILQ_INSERT_AFTER(&snaps, at, snap, order);
	LIST_INSERT_HEAD(&table[snap->id % BUCKETS], snap, bucket);
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
snap_save(const struct snap *snap)
{
	return store_record(STORE_SNAPSHOTS, "snap_", snap->id, record_snap_encode(snap));
}
