/* Compares what the engine has of ours with the records, and acts on each difference. */
#include <bsd/string.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

#include "common/ids.h"
#include "common/log.h"
#include "managerd/create.h"
#include "managerd/destroy.h"
#include "managerd/engine.h"
#include "managerd/load.h"
#include "managerd/manager.h"
#include "managerd/pool.h"
#include "managerd/reconcile.h"
#include "managerd/rollback.h"
#include "managerd/start.h"

#define ITEMS_MAX 1000000

static struct m_d_item *items;
static size_t nitems, nroom;
static uint64_t *members; /* of the pool, that sandboxes have */
static size_t nmembers;
static int listing, again, done;

int
reconcile_done(void)
{
	return done;
}

static void
on_item(const struct m_d_item *item)
{
	struct m_d_item *p;

	if (nitems == nroom) {
		nroom = nroom == 0 ? 64 : nroom * 2;
		if (nroom > ITEMS_MAX || (p = reallocarray(items, nroom, sizeof(*items))) == NULL)
			fatal("list of containers");
		items = p;
	}
	items[nitems++] = *item;
}

static int
item_order(const void *a, const void *b)
{
	const struct m_d_item *x = a, *y = b;

	if (x->sandbox != y->sandbox)
		return x->sandbox < y->sandbox ? -1 : 1;
	if (x->generation != y->generation)
		return x->generation < y->generation ? -1 : 1;
	if (x->sandbox == 0 && x->pool != y->pool)
		return x->pool < y->pool ? -1 : 1;
	return (int)x->kind - (int)y->kind;
}

static const struct m_d_item *
item_search(const struct m_d_item *key)
{
	return nitems == 0 ? NULL : bsearch(key, items, nitems, sizeof(*items), item_order);
}

/* Container or volume of its generation, or NULL: under the sandbox's name, or still under that of
 * the member of the pool that it was. */
static const struct m_d_item *
item_find(const struct box *box, enum d_item_kind kind)
{
	struct m_d_item key = {.sandbox = box->id, .generation = box->generation, .kind = kind};
	struct m_d_item member = {.pool = box->pool, .kind = kind};
	const struct m_d_item *item = NULL;

	if (box->pool == 0 || kind == ITEM_CONTAINER)
		item = item_search(&key);
	return item == NULL && box->pool != 0 ? item_search(&member) : item;
}

static int
pool_order(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void
pool_note(struct box *box, void *arg)
{
	uint64_t *more = reallocarray(members, nmembers + 2, sizeof(*members));

	(void)arg;
	if (more == NULL)
		fatal("members of the pool");
	members = more;
	members[nmembers++] = box->pool;
	members[nmembers++] = box->claims;
}

/* Of what the sandboxes have from the pool, in order. */
static void
pools_note(void)
{
	nmembers = 0;
	box_each(pool_note, NULL);
	if (nmembers > 0)
		qsort(members, nmembers, sizeof(*members), pool_order);
}

/* A record that cannot be read may be the one that knows it. */
static int
member_wanted(uint64_t pool)
{
	return pool == 0 || load_any_damaged() || pool_has(pool) ||
	       (nmembers > 0 &&
		   bsearch(&pool, members, nmembers, sizeof(*members), pool_order) != NULL);
}

/* Whether this generation belongs to a sandbox, or to one that is being made. */
static int
item_wanted(const struct m_d_item *item)
{
	struct box *box = box_find(item->sandbox);

	if (item->sandbox == 0)
		return member_wanted(item->pool);
	if (load_is_damaged(item->sandbox))
		return 1;
	if (box == NULL)
		return 0;
	return box->generation == item->generation ||
	       (box->state == BOX_ROLLING_BACK && box->top == item->generation);
}

/* By name: an item may be of before its removal, and its id be forgotten since. */
static void
orphans_remove(void)
{
	char id[ID_TEXT_MAX];
	size_t i, left = 0;

	pools_note();
	for (i = 0; i < nitems; i++) {
		struct wreckage what = {items[i].sandbox, items[i].pool, items[i].generation};

		if (item_wanted(&items[i]) || wreck_known(&what))
			continue;
		if (what.sandbox == 0)
			left++;
		else
			log_info("removing what no record knows: generation %u of %s",
			    what.generation, id_text(id, "sb_", what.sandbox));
		wreck_add(&what, "", NULL, NULL);
	}
	if (left > 0)
		log_info("removing %zu sandboxes of the pool that nobody claimed", left);
}

static void
box_compare(struct box *box, void *arg)
{
	const struct m_d_item *item;

	(void)arg;
	if ((box->state != BOX_RUNNING && box->state != BOX_STOPPED) || box->starting)
		return;
	item = item_find(box, ITEM_CONTAINER);
	/* Later the list may be older than a removal: what has no container then gets a new one. */
	if (item != NULL && !done) {
		strlcpy(box->container, item->container, sizeof(box->container));
		if (item->sandbox == 0 && !done)
			start_name(box); /* a crash came before it, or it was refused */
	}
	if (item == NULL && box->renewing && item_find(box, ITEM_VOLUME) != NULL)
		box->state = BOX_STOPPED; /* its next use makes the container */
	else if (done) /* the list may be older than what happened here: ask again */
		start_check_if(box, item == NULL ? STATE_GONE : item->state);
	else if (item == NULL)
		start_found(box, STATE_GONE);
	else
		box->state = item->state == STATE_RUNNING ? BOX_RUNNING : BOX_STOPPED;
}

static void
on_later(evutil_socket_t fd, short what, void *arg)
{
	(void)fd, (void)what, (void)arg;
	if (engine_up())
		reconcile_start();
}

static void
list_after(time_t seconds)
{
	const struct timeval delay = {seconds, 0};

	if (event_base_once(mgr.base, -1, EV_TIMEOUT, on_later, NULL, &delay) == -1)
		fatalx("reconcile: out of memory");
}

/*
 * What the engine was told just before our start may come to be only after its first list: an
 * engine call takes 30 s at most.
 */
static void
look_for_latecomers(void)
{
	list_after(3);
	list_after(35);
}

static void
on_listed(void *arg, const struct answer *a)
{
	(void)arg;
	listing = 0;
	if (a->failed) {
		again = 0;
		/* The engine is there, but could not list: sandboxes wait for it. */
		if (a->why != FAIL_UNREACHABLE) {
			log_warnx("the engine's list, which is asked for again: %s", a->text);
			list_after(1);
		}
		manager_ready();
		return;
	}
	if (nitems > 0)
		qsort(items, nitems, sizeof(*items), item_order);
	box_each(box_compare, NULL);
	orphans_remove();
	if (!done)
		look_for_latecomers();
	done = 1;
	nitems = 0;
	manager_ready();
	start_background();
	pool_refill();
	if (again)
		reconcile_start();
}

void
reconcile_start(void)
{
	if (listing) {
		again = 1;
		return;
	}
	listing = 1;
	again = 0;
	nitems = 0;
	engine_list(on_item, on_listed, NULL);
}

void
reconcile_event(const char *container, uint32_t event)
{
	struct box *box;

	TAILQ_FOREACH (box, &boxes, order)
		if (strcmp(box->container, container) == 0)
			break;
	if (box == NULL || box->starting)
		return;
	if ((event == EVENT_START || event == EVENT_UNPAUSE) && box->state != BOX_STOPPED)
		return;
	start_check(box);
}
