/* The steps from nothing to a sandbox that takes jobs. */
#include <bsd/string.h>
#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/ids.h"
#include "common/log.h"
#include "managerd/bring.h"
#include "managerd/engine.h"
#include "managerd/manager.h"
#include "managerd/pool.h"
#include "managerd/session.h"
#include "managerd/snap.h"
#include "managerd/start.h"
#include "managerd/store.h"
#include "proto/apid_managerd.h"

#define NAME_US 500000 /* a run that ends before has no name of its own at the engine */
#define LOOKS 10
#define LOOK_US 100000

static void look(evutil_socket_t, short, void *);

/* Opens the snapshot's file, whose bytes count until it was read; -1 with errno. */
static int
bring_open(struct bring *b)
{
	const struct snap *snap = snap_find(b->snapshot);

	if (snap == NULL) {
		errno = ENOENT;
		return -1;
	}
	if ((b->restore_fd = snapfile_open(snap->id)) == -1)
		return -1;
	b->held = snap_bytes_hold(snap);
	return 0;
}

/* It is closed, here or by the session. */
static void
bring_read(struct bring *b)
{
	snap_bytes_drop(b->held);
	b->held = NULL;
}

/* An engine call was made. */
static void
bring_asked(struct bring *b)
{
	if (b->box == NULL)
		engine_background(b);
}

static void
bring_fail(struct bring *b, uint32_t status, const char *text)
{
	bring_drop(b, END_BACKEND);
	b->failed(b, status, text);
}

static void
on_up(void *arg)
{
	struct bring *b = arg;
	int fd = b->restore_fd;

	if (b->snapshot == 0) {
		b->ready(b);
		return;
	}
	b->restore_fd = -1;
	session_restore(b->session, fd, b->size, b->sha256);
}

static void
on_restored(void *arg, uint32_t status, const char *text)
{
	struct bring *b = arg;

	bring_read(b);
	if (status < 400)
		b->ready(b);
	else
		bring_fail(
		    b, status, *text != '\0' ? text : "the snapshot could not be put in place");
}

static void
again_new(struct bring *b)
{
	if (b->again == NULL && (b->again = event_new(mgr.base, -1, 0, look, b)) == NULL)
		fatalx("bring: out of memory");
}

/* What became of the container says why the session was lost; the engine may need a moment to see
 * it. */
static void
on_looked(void *arg, const struct answer *a)
{
	struct timeval moment = {0, LOOK_US};
	struct bring *b = arg;
	char text[IMAGE_MAX + 128];

	if (!a->failed && a->foreign_workspace) {
		snprintf(text, sizeof(text),
		    "image %s has a /workspace that does not belong to the sandbox user",
		    b->spec->image);
		bring_fail(b, 400, text);
	} else if (!a->failed && a->state == STATE_RUNNING && b->looks++ < LOOKS)
		event_add(b->again, &moment);
	else
		bring_fail(b, 502, b->lost);
}

static void
look(evutil_socket_t fd, short what, void *arg)
{
	struct bring *b = arg;

	(void)fd, (void)what;
	if (b->claimed)
		on_up(b);
	else
		engine_inspect(b->container, on_looked, b);
}

static int bring_fresh(struct bring *);

/* What was claimed is of no use: the sandbox gets a container of its own. */
static void
bring_fall_back(struct bring *b, enum pool_miss why)
{
	uint32_t status;

	pool_missed(b->spec, why);
	bring_drop(b, END_BACKEND);
	if (b->snapshot != 0 && bring_open(b) == -1) {
		log_warn("a snapshot's file");
		bring_fail(b, 502, "the snapshot cannot be read");
	} else if (bring_fresh(b) == -1) {
		status = errno == ENOSPC || errno == EDQUOT ? 507 : 502;
		bring_fail(b, status, "the server's data directory cannot be written");
	}
}

static void
on_lost(void *arg, const char *text)
{
	struct bring *b = arg;

	b->session = NULL;
	if (b->claimed && engine_up()) {
		bring_fall_back(b, POOL_LOST);
		return;
	}
	if (b->container[0] == '\0' || !engine_up()) {
		bring_fail(b, 502, text);
		return;
	}
	strlcpy(b->lost, text, sizeof(b->lost));
	engine_drop(b); /* an attach that is under way */
	again_new(b);
	look(-1, 0, b);
}

static const struct session_owner owner = {on_up, on_lost, on_restored};

static void
on_attached(void *arg, const struct answer *a)
{
	struct bring *b = arg;

	if (a->failed)
		bring_fail(b, engine_status(a->why), a->text);
	else
		session_guest(b->session, a->fd);
}

static void
on_created(void *arg, const struct answer *a)
{
	struct bring *b = arg;

	if (a->failed) {
		bring_fail(b, engine_status(a->why), a->text);
		return;
	}
	strlcpy(b->container, a->container, sizeof(b->container));
	engine_attach(b->container, on_attached, b);
	bring_asked(b);
}

static void
on_prepared(void *arg, const struct answer *a)
{
	struct bring *b = arg;
	struct m_d_create m = {
	    .sandbox = b->box == NULL ? 0 : b->box->id,
	    .pool = b->pool,
	    .generation = b->generation,
	};

	if (a->failed) {
		bring_fail(b, engine_status(a->why), a->text);
		return;
	}
	strlcpy(m.image_id, a->prepared->image_id, sizeof(m.image_id));
	strlcpy(b->image_id, m.image_id, sizeof(b->image_id));
	b->made = 1;
	engine_create(&m, b->spec, on_created, b);
	bring_asked(b);
	/* Beside the engine's work, and only now: an image that is not there costs no process. */
	b->session = session_new(b->box, b->generation, &owner, b);
}

int
bring_init(struct bring *b, struct box *box, uint32_t generation, const struct snap *snap)
{
	memset(b, 0, sizeof(*b));
	b->box = box;
	b->spec = &box->spec;
	b->generation = generation;
	b->restore_fd = -1;
	if (snap == NULL)
		return 0;
	b->snapshot = snap->id;
	b->size = snap->size_bytes;
	memcpy(b->sha256, snap->sha256, sizeof(b->sha256));
	return bring_open(b);
}

void
bring_init_member(struct bring *b, const struct spec *spec, uint64_t pool)
{
	memset(b, 0, sizeof(*b));
	b->spec = spec;
	b->pool = pool;
	b->restore_fd = -1;
}

/* The image is looked for while the record is written; nothing is made before that. */
static int
bring_fresh(struct bring *b)
{
	struct tenant *tenant = b->box != NULL ? b->box->tenant : NULL;

	engine_prepare(b->spec->image, tenant, b->local, on_prepared, b);
	bring_asked(b);
	return b->record == NULL ? 0 : b->record(b);
}

/* It has its limits: from now on it is the sandbox's, and has its environment. */
static void
bring_configured(struct bring *b)
{
	session_claim(b->session, b->box, b->generation);
	again_new(b);
	event_active(b->again, EV_TIMEOUT, 0);
}

static void
on_updated(void *arg, const struct answer *a)
{
	struct bring *b = arg;

	if (!a->failed)
		bring_configured(b);
	else if (!engine_up())
		bring_fail(b, 502, a->text);
	else
		bring_fall_back(b, a->why == FAIL_GONE ? POOL_LOST : POOL_UPDATE);
}

static void
bring_claim(struct bring *b, const struct pool_claim *claim)
{
	struct m_d_update m = {
	    .nano_cpus = b->spec->nano_cpus,
	    .memory_mb = b->spec->memory_mb,
	    .pids_limit = b->spec->pids_limit,
	};

	b->claimed = 1;
	b->pool = b->box->claims = claim->pool;
	strlcpy(b->container, claim->container, sizeof(b->container));
	b->session = claim->session;
	session_adopt(b->session, &owner, b);
	if (!claim->update) {
		bring_configured(b);
		return;
	}
	strlcpy(m.container, b->container, sizeof(m.container));
	engine_update(&m, on_updated, b);
}

int
bring_start(struct bring *b)
{
	struct pool_claim claim;

	if (b->box == NULL || !pool_claim(b->spec, &claim))
		return bring_fresh(b);
	bring_claim(b, &claim);
	return 0;
}

void
bring_adopt(struct bring *b)
{
	if (b->again != NULL)
		event_free(b->again);
	b->again = NULL;
	start_adopt(b->box, b->session);
	if (b->claimed && b->box->run)
		b->box->name_us = time_boot_us() + NAME_US;
	else if (b->claimed)
		start_name(b->box);
}

void
bring_drop(struct bring *b, uint32_t reason)
{
	struct wreckage what = {.pool = b->pool};

	engine_drop(b);
	if (b->again != NULL)
		event_free(b->again);
	b->again = NULL;
	if (b->session != NULL)
		session_end(b->session, reason);
	b->session = NULL;
	if (b->restore_fd != -1)
		close(b->restore_fd);
	b->restore_fd = -1;
	bring_read(b);
	if (b->pool == 0 || (!b->claimed && !b->made))
		return;
	wreck_add(&what, b->container, NULL, NULL);
	if (b->box != NULL)
		b->box->claims = 0;
	b->pool = 0;
	b->claimed = b->made = 0;
	b->container[0] = '\0';
}
