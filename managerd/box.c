/* Keeps the table of sandboxes. */
#include <stdlib.h>
#include <string.h>

#include "common/ids.h"
#include "common/log.h"
#include "managerd/box.h"
#include "managerd/record.h"
#include "managerd/store.h"
#include "proto/managerd_sessiond.h"

#define BUCKETS 1024

LIST_HEAD(bucket, box);

struct box_list boxes = TAILQ_HEAD_INITIALIZER(boxes);
char box_boot[40];
static struct bucket table[BUCKETS];

struct box *
box_new(uint64_t id)
{
	struct box *box;

	if ((box = calloc(1, sizeof(*box))) == NULL)
		fatal("box");
	while (id == 0 || box_find(id) != NULL)
		id = id_new();
	box->id = id;
	box->generation = box->top = 1;
	box->tenant = tenant_default();
	TAILQ_INIT(&box->waiting);
	TAILQ_INIT(&box->running);
	LIST_INSERT_HEAD(&table[id % BUCKETS], box, bucket);
	return box;
}

void
box_free(struct box *box)
{
	if (box->session != NULL || !TAILQ_EMPTY(&box->waiting) || !TAILQ_EMPTY(&box->running))
		fatalx("a sandbox was freed that is in use");
	if (box->listed) {
		TAILQ_REMOVE(&boxes, box, order);
		TAILQ_REMOVE(&box->tenant->boxes, box, own);
	}
	LIST_REMOVE(box, bucket);
	spec_clear(&box->spec);
	free(box);
}

struct box *
box_find(uint64_t id)
{
	struct box *box;

	LIST_FOREACH (box, &table[id % BUCKETS], bucket)
		if (box->id == id)
			return box;
	return NULL;
}

static int
box_order(const void *a, const void *b)
{
	const struct box *x = *(struct box *const *)a, *y = *(struct box *const *)b;

	if (x->created_us != y->created_us)
		return x->created_us < y->created_us ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

void
box_list(struct box *box)
{
	struct box *at;

	TAILQ_FOREACH_REVERSE(at, &boxes, box_list, order)
	if (box_order(&at, &box) < 0)
		break;
	if (at == NULL)
		TAILQ_INSERT_HEAD(&boxes, box, order);
	else
		TAILQ_INSERT_AFTER(&boxes, at, box, order);
	TAILQ_FOREACH_REVERSE(at, &box->tenant->boxes, box_list, own)
	if (box_order(&at, &box) < 0)
		break;
	if (at == NULL)
		TAILQ_INSERT_HEAD(&box->tenant->boxes, box, own);
	else
		TAILQ_INSERT_AFTER(&box->tenant->boxes, at, box, own);
	box->listed = 1;
}

void
box_list_loaded(struct box *box)
{
	TAILQ_INSERT_TAIL(&boxes, box, order);
	TAILQ_INSERT_TAIL(&box->tenant->boxes, box, own);
	box->listed = 1;
}

void
box_sort(void)
{
	struct box **all, *box;
	size_t i, n = 0;

	TAILQ_FOREACH (box, &boxes, order)
		n++;
	if ((all = reallocarray(NULL, n + 1, sizeof(struct box *))) == NULL)
		fatal("boxes");
	n = 0;
	TAILQ_FOREACH (box, &boxes, order)
		all[n++] = box;
	qsort(all, n, sizeof(struct box *), box_order);
	TAILQ_INIT(&boxes);
	for (i = 0; i < n; i++)
		TAILQ_INIT(&all[i]->tenant->boxes);
	for (i = 0; i < n; i++) {
		TAILQ_INSERT_TAIL(&boxes, all[i], order);
		TAILQ_INSERT_TAIL(&all[i]->tenant->boxes, all[i], own);
	}
	free(all);
}

int
box_shown(const struct box *box)
{
	return box->listed && (box->state != BOX_DESTROYING || box->end_reason == END_DELETED);
}

static void
count_one(struct box *box, void *arg)
{
	if (box->state != BOX_DESTROYING || box->listed)
		++*(size_t *)arg;
}

size_t
box_count(void)
{
	size_t n = 0;

	box_each(count_one, &n);
	return n;
}

static void
count_leaving(struct box *box, void *arg)
{
	if (box->state == BOX_DESTROYING && !box->listed)
		++*(size_t *)arg;
}

size_t
box_count_leaving(void)
{
	size_t n = 0;

	box_each(count_leaving, &n);
	return n;
}

int
box_serves_run(const struct box *box)
{
	return box->run && box->state != BOX_CREATING && box->state != BOX_DESTROYING;
}

void
box_each(void (*fn)(struct box *, void *), void *arg)
{
	struct box *box, *next;
	size_t i;

	for (i = 0; i < BUCKETS; i++)
		LIST_FOREACH_SAFE(box, &table[i], bucket, next)
	fn(box, arg);
}

struct wreckage
box_wreckage(const struct box *box)
{
	if (box->run && box->claims != 0)
		return (struct wreckage){.pool = box->claims};
	return (struct wreckage){box->id, box->pool, box->generation};
}

int
box_save(const struct box *box)
{
	if (box->run)
		return 0;
	return store_record(STORE_SANDBOXES, "sb_", box->id, record_box_encode(box));
}

const char *
box_state_name(enum box_state state)
{
	static const char *const names[BOX_STATES] = {
	    "creating", "running", "stopped", "rolling_back", "destroying"};

	return names[state];
}

void
box_set_ttl(struct box *box, int64_t ttl_s)
{
	box->expires_us = time_wall_us() + ttl_s * 1000000;
	box->deadline_us = time_boot_us() + ttl_s * 1000000;
	memcpy(box->boot, box_boot, sizeof(box->boot));
}
