/* The snapshots that exist: their table. */
#ifndef MANAGERD_SNAP_H
#define MANAGERD_SNAP_H

#include <bsd/sys/queue.h>
#include <stdint.h>

#include "managerd/spec.h"
#include "managerd/tenant.h"

/* What a snapshot takes of its tenant's quota, until the last holder gives it back: a file that is
 * open keeps its bytes when it is removed. */
struct snap_bytes;

struct snap {
	uint64_t id;
	uint64_t sandbox;
	uint64_t parent; /* 0: none */
	int64_t created_us;
	int64_t size_bytes;
	int64_t stored_bytes;
	int64_t record_bytes; /* of its record on the disk */
	int64_t reserved;     /* of its tenant's quota, while it is made */
	uint8_t sha256[32];
	char *name;               /* NULL: none */
	struct tenant *tenant;    /* whose it is */
	struct snap_bytes *bytes; /* when listed */
	struct spec spec;         /* when listed without environment and labels: snap_spec() */

	TAILQ_ENTRY(snap) order;
	TAILQ_ENTRY(snap) own; /* of its tenant */
	LIST_ENTRY(snap) bucket;
};

extern struct snap_list snaps; /* oldest first */

/* A snapshot in no list. id 0: a fresh one. */
struct snap *snap_new(uint64_t id);
void snap_free(struct snap *); /* also out of the lists */
void snap_list(struct snap *);
/* For many at once: as they come, then snap_sort(). */
void snap_list_loaded(struct snap *);
void snap_sort(void);
struct snap *snap_find(uint64_t id);
/* One holder more, until snap_bytes_drop(); NULL is none. */
struct snap_bytes *snap_bytes_hold(const struct snap *);
void snap_bytes_drop(struct snap_bytes *);
/* All of them, with those that are being made. */
size_t snap_count(void);
/* What a sandbox made from it is to be, as its record says; -1: that cannot be read. */
int snap_spec(const struct snap *, struct spec *);
/* Its record, malloc'ed, whose size it sets; and writes that, which it takes: -1 with errno. */
char *snap_record(struct snap *);
int snap_save(const struct snap *, char *record);

#endif
