/* Keeps the pool filled. */
#include "managerd/pool.h"

#include <bsd/string.h>
#include <bsd/sys/queue.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

#include "common/ids.h"
#include "common/image_ref.h"
#include "common/log.h"
#include "common/pool_list.h"
#include "managerd/bring.h"
#include "managerd/engine.h"
#include "managerd/manager.h"
#include "managerd/policy.h"
#include "managerd/pool_member.h"
#include "managerd/quiet.h"
#include "managerd/reconcile.h"
#include "managerd/session.h"

#define MAKING_MAX 2         /* members at a time */
#define WAIT_MIN_US 1000000  /* after a failure, doubled each time */
#define WAIT_MAX_US 60000000 /* at most */
#define PULL_US 600000000    /* between two pulls of an image that cannot be pulled */
#define CHECK_US 15000000    /* between two looks at what a tag means */
#define PATIENCE_US 500000   /* so long runs go first */

struct pool_images pool_images = TAILQ_HEAD_INITIALIZER(pool_images);
static struct event *ticker, *filler;
static int64_t missing_us; /* CLOCK_BOOTTIME: members are missing, and runs go first; 0: not so */
int pool_draining;

static size_t
members_count(const struct pool_image *image, int ready)
{
	const struct member *m;
	size_t n = 0;

	TAILQ_FOREACH (m, &image->members, entry)
		n += m->ready == ready;
	return n;
}

void
pool_fill_after(int64_t us)
{
	struct timeval tv = {us / 1000000, us % 1000000};

	if (!event_pending(filler, EV_TIMEOUT, NULL))
		event_add(filler, &tv);
}

void
pool_refill(void)
{
	if (filler != NULL)
		pool_fill_after(0);
}

/* Nobody may claim it any more; its container goes in the background. */
static void
member_remove(struct member *m, uint32_t reason)
{
	TAILQ_REMOVE(&m->image->members, m, entry);
	bring_drop(&m->bring, reason);
	free(m);
	pool_fill_after(0);
}

static void
on_lost(void *arg, const char *text)
{
	struct member *m = arg;

	log_info("a sandbox of the pool was lost: %s", text);
	m->bring.session = NULL;
	member_remove(m, END_BACKEND);
}

static const struct session_owner owner = {NULL, on_lost, NULL};

static void
on_ready(struct bring *b)
{
	struct member *m = (struct member *)b;
	struct pool_image *image = m->image;

	m->ready = 1;
	session_adopt(b->session, &owner, m);
	if (image->prepared[0] == '\0')
		strlcpy(image->prepared, b->image_id, sizeof(image->prepared));
	else if (strcmp(image->prepared, b->image_id) != 0)
		image->check_us = 0; /* which of them is the newer one? */
	if (image->why[0] != '\0')
		log_info("the pool of %s is being filled again", image->spec.image);
	image->why[0] = '\0';
	image->wait_us = image->after_us = 0;
	pool_fill_after(0);
}

/* Tried again ever more seldom; said once for each reason. */
static void
on_failed(struct bring *b, uint32_t status, const char *text)
{
	struct member *m = (struct member *)b;
	struct pool_image *image = m->image;
	int64_t now = time_boot_us();

	if (status == 400 && !b->local)
		image->pull_us = now + PULL_US;
	if (strcmp(image->why, text) != 0 && engine_up())
		log_warnx("the pool of %s is not filled, which is tried again: %s",
		    image->spec.image, text);
	strlcpy(image->why, text, sizeof(image->why));
	image->wait_us = image->wait_us == 0 ? WAIT_MIN_US : image->wait_us * 2;
	if (image->wait_us > WAIT_MAX_US)
		image->wait_us = WAIT_MAX_US;
	image->after_us = now + image->wait_us;
	TAILQ_REMOVE(&image->members, m, entry);
	free(m);
}

static void
member_make(struct pool_image *image)
{
	struct member *m;

	if ((m = calloc(1, sizeof(*m))) == NULL)
		fatal("pool");
	m->image = image;
	bring_init_member(&m->bring, &image->spec, id_new());
	m->bring.local = time_boot_us() < image->pull_us;
	m->bring.ready = on_ready;
	m->bring.failed = on_failed;
	TAILQ_INSERT_TAIL(&image->members, m, entry);
	bring_start(&m->bring);
}

static size_t
making_count(void)
{
	const struct pool_image *image;
	size_t n = 0;

	TAILQ_FOREACH (image, &pool_images, entry)
		n += members_count(image, 0);
	return n;
}

static void
count_claim(struct box *box, void *arg)
{
	*(size_t *)arg += box->claims != 0;
}

/* dockerd-proxy counts those too that are on their way out: to a sandbox, or to nowhere. */
static int
has_room(void)
{
	const struct pool_image *image;
	size_t n = wreck_pool(), most = 0;

	box_each(count_claim, &n);
	TAILQ_FOREACH (image, &pool_images, entry) {
		n += members_count(image, 0) + members_count(image, 1);
		most += image->size;
	}
	return n < most;
}

/* The emptiest first. */
static struct pool_image *
image_next(void)
{
	struct pool_image *image, *best = NULL;
	size_t n, most = 0;
	int64_t now = time_boot_us();

	TAILQ_FOREACH (image, &pool_images, entry) {
		n = members_count(image, 0) + members_count(image, 1);
		if (n >= image->size || image->after_us > now || image->size - n <= most)
			continue;
		most = image->size - n;
		best = image;
	}
	return best;
}

/* From when on members are missing; then the pool is filled to the last, since runs may never
 * end. */
static int
runs_first(void)
{
	int64_t now = time_boot_us();

	if (quiet())
		return 0;
	if (missing_us == 0)
		missing_us = now;
	if (now - missing_us < PATIENCE_US)
		return 1;
	wreck_room(0, 0); /* what runs have left has places of the pool */
	return 0;
}

static void
fill(evutil_socket_t fd, short what, void *arg)
{
	struct pool_image *image;

	(void)fd, (void)what, (void)arg;
	if (pool_draining || !engine_up() || !reconcile_done())
		return; /* the ticker comes */
	while (making_count() < MAKING_MAX && (image = image_next()) != NULL) {
		if (engine_busy() || runs_first() || !has_room()) {
			pool_fill_after(POOL_PAUSE_US);
			return;
		}
		member_make(image);
	}
	if (image_next() == NULL)
		missing_us = 0;
}

/* What the tag means now: members of something else are replaced. */
static void
on_checked(void *arg, const struct answer *a)
{
	struct pool_image *image = arg;
	struct member *m, *next;
	size_t n = 0;

	image->checking = 0;
	image->check_us = time_boot_us() + CHECK_US;
	if (a->failed)
		return; /* one that is gone can still be used as it was */
	strlcpy(image->prepared, a->prepared->image_id, sizeof(image->prepared));
	TAILQ_FOREACH_SAFE (m, &image->members, entry, next) {
		if (!m->ready || strcmp(m->bring.image_id, image->prepared) == 0)
			continue;
		member_remove(m, END_DELETED);
		n++;
	}
	if (n > 0)
		log_info("image %s has changed: %zu sandboxes of the pool are replaced",
		    image->spec.image, n);
}

static void
image_check(struct pool_image *image, int64_t now)
{
	if (image->checking || image->check_us > now || members_count(image, 1) == 0)
		return;
	image->checking = 1;
	engine_prepare(image->spec.image, NULL, 1, on_checked, image);
	engine_background(image);
}

size_t
pool_states(struct pool_state *states)
{
	struct pool_image *image;
	size_t n = 0;

	TAILQ_FOREACH (image, &pool_images, entry)
		states[n++] =
		    (struct pool_state){image->spec.image, image->size, members_count(image, 1)};
	return n;
}

static void
report(void)
{
	struct pool_state states[POOL_IMAGES_MAX];

	pool_report(states, pool_states(states));
}

static void
tick(evutil_socket_t fd, short what, void *arg)
{
	struct pool_image *image;
	int64_t now = time_boot_us();

	(void)fd, (void)what, (void)arg;
	if (pool_draining)
		return;
	pool_fill_after(0);
	TAILQ_FOREACH (image, &pool_images, entry)
		if (engine_up() && reconcile_done() && !engine_busy())
			image_check(image, now);
	report();
}

static void
image_add(const char *name, size_t len, size_t count)
{
	struct image_ref ref;
	struct pool_image *image;

	if (image_parse(name, len, &ref) == -1) {
		log_warnx("the pool: %.*s is not the name of an image", (int)len, name);
		return;
	}
	if ((image = pool_image_find(&ref)) == NULL) {
		if ((image = calloc(1, sizeof(*image))) == NULL ||
		    (image->spec.image = strndup(name, len)) == NULL)
			fatal("pool");
		image->ref = ref;
		image->spec.nano_cpus = CFG(DEFAULT_CPUS);
		image->spec.memory_mb = CFG(DEFAULT_MEMORY_MB);
		image->spec.pids_limit = CFG(DEFAULT_PIDS_LIMIT);
		image->spec.read_only = 1;
		if (*CFG_TEXT(EGRESS_ALLOWLIST) != '\0' &&
		    (image->spec.egress = strdup(CFG_TEXT(EGRESS_ALLOWLIST))) == NULL)
			fatal("pool");
		TAILQ_INIT(&image->members);
		TAILQ_INSERT_TAIL(&pool_images, image, entry);
	}
	image->size += count;
}

/* As many as there is memory for; the last ones of the list are left out. */
static void
images_load(void)
{
	const char *list = CFG_TEXT(POOL);
	int64_t room = pool_kept(&mgr.child.config);
	struct pool_item item;
	struct policy policy;
	char name[D_IMAGE_MAX];

	policy_load(&policy, &mgr.child.config);
	while (room > 0 && pool_next(&list, &item) == 1) {
		if (item.image == NULL)
			strlcpy(name, CFG_TEXT(DEFAULT_IMAGE), sizeof(name));
		else if (item.len < sizeof(name))
			strlcpy(name, item.image, item.len + 1);
		if (item.count == 0)
			continue;
		if (policy_image(&policy, name) != 0) {
			log_warnx("image %s is not allowed on this server: no pool of it", name);
			continue;
		}
		if (item.count > room)
			item.count = room;
		room -= item.count;
		image_add(name, strlen(name), (size_t)item.count);
	}
	if (pool_kept(&mgr.child.config) < pool_asked(&mgr.child.config))
		log_warnx("the pool keeps %lld sandboxes of the %lld asked for: "
			  "AGENT_SANDBOX_POOL_MEMORY_MB has no room for more",
		    (long long)pool_kept(&mgr.child.config),
		    (long long)pool_asked(&mgr.child.config));
}

void
pool_start(void)
{
	struct timeval second = {1, 0};

	images_load();
	if (TAILQ_EMPTY(&pool_images)) {
		pool_report_remove();
		return;
	}
	if ((filler = event_new(mgr.base, -1, 0, fill, NULL)) == NULL ||
	    (ticker = event_new(mgr.base, -1, EV_PERSIST, tick, NULL)) == NULL ||
	    event_add(ticker, &second) == -1)
		fatalx("pool: out of memory");
	report();
}

int
pool_has(uint64_t pool)
{
	struct pool_image *image;
	struct member *m;

	TAILQ_FOREACH (image, &pool_images, entry)
		TAILQ_FOREACH (m, &image->members, entry)
			if (m->bring.pool == pool)
				return 1;
	return 0;
}

void
pool_event(const char *container, uint32_t event)
{
	struct pool_image *image;
	struct member *m;

	if (event == EVENT_START || event == EVENT_UNPAUSE)
		return;
	TAILQ_FOREACH (image, &pool_images, entry)
		TAILQ_FOREACH (m, &image->members, entry)
			if (m->ready && strcmp(m->bring.container, container) == 0) {
				log_info("a sandbox of the pool was ended by others");
				member_remove(m, END_BACKEND);
				return;
			}
}

void
pool_drain(void)
{
	struct pool_image *image;
	struct member *m;

	if (pool_draining)
		return;
	pool_draining = 1;
	TAILQ_FOREACH (image, &pool_images, entry)
		while ((m = TAILQ_FIRST(&image->members)) != NULL)
			member_remove(m, END_SHUTDOWN);
	pool_report_remove();
}
