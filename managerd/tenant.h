/*
 * Tenants: whose sandboxes and snapshots are whose, and what each may use. One is known from when a
 * key or a record first names it, to the end of the program.
 */
#ifndef MANAGERD_TENANT_H
#define MANAGERD_TENANT_H

#include <bsd/sys/queue.h>
#include <stddef.h>
#include <stdint.h>

#include "common/keys_file.h"

struct box;
struct snap;
TAILQ_HEAD(box_list, box);
TAILQ_HEAD(snap_list, snap);

struct tenant {
	LIST_ENTRY(tenant) bucket;
	char name[KEYS_NAME_MAX + 1];
	size_t number;              /* in the order in which they were heard of, from 0 */
	int64_t quota[KEYS_QUOTAS]; /* KEYS_NO_QUOTA: none */
	int64_t rate_us;            /* of requests; rate.h */
	size_t execs;               /* running, or waiting for their sandbox */
	size_t nsnaps;
	size_t nmaking;            /* snapshots that are being made, and */
	int64_t snapshot_reserved; /* for those that are being made */
	int64_t snapshot_bytes;    /* on disk, of snaps and their records, and of removed ones
				    * that are read still */
	struct box_list boxes;     /* listed ones, oldest first */
	struct snap_list snaps;    /* oldest first */
};

/* By name, which keys_name_valid() takes; fatal when out of memory. */
struct tenant *tenant_get(const char *name);
/* By its number; NULL: there are not so many. */
struct tenant *tenant_numbered(size_t);
/* Of AGENT_SANDBOX_API_KEYS, and of records without a name. */
struct tenant *tenant_default(void);
/* No tenant has a quota any more. */
void tenants_unlimited(void);

#endif
