/* The steps from nothing to a sandbox that takes jobs. */
#include <bsd/string.h>
#include <event2/event.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "managerd/bring.h"
#include "managerd/engine.h"
#include "managerd/manager.h"
#include "managerd/session.h"
#include "managerd/snap.h"
#include "managerd/store.h"
#include "proto/apid_managerd.h"

#define LOOKS 10
#define LOOK_US 100000

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

	if (!b->restores) {
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

	if (status < 400)
		b->ready(b);
	else
		bring_fail(
		    b, status, *text != '\0' ? text : "the snapshot could not be put in place");
}

static void look(evutil_socket_t, short, void *);

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
		    b->box->spec.image);
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
	engine_inspect(b->container, on_looked, b);
}

static void
on_lost(void *arg, const char *text)
{
	struct bring *b = arg;

	b->session = NULL;
	if (b->container[0] == '\0' || !engine_up()) {
		bring_fail(b, 502, text);
		return;
	}
	strlcpy(b->lost, text, sizeof(b->lost));
	engine_drop(b); /* an attach that is under way */
	if (b->again == NULL && (b->again = event_new(mgr.base, -1, 0, look, b)) == NULL)
		fatalx("bring: out of memory");
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
}

static void
on_prepared(void *arg, const struct answer *a)
{
	struct bring *b = arg;
	const struct spec *spec = &b->box->spec;
	struct m_d_create m = {
	    .sandbox = b->box->id,
	    .generation = b->generation,
	    .network = spec->network,
	    .read_only = spec->read_only,
	    .nano_cpus = spec->nano_cpus,
	    .memory_mb = spec->memory_mb,
	    .pids_limit = spec->pids_limit,
	};

	if (a->failed) {
		bring_fail(b, engine_status(a->why), a->text);
		return;
	}
	strlcpy(m.image_id, a->prepared->image_id, sizeof(m.image_id));
	b->made = 1;
	engine_create(&m, on_created, b);
	/* Beside the engine's work, and only now: an image that is not there costs no process. */
	b->session = session_new(b->box, b->generation, &owner, b);
}

int
bring_init(struct bring *b, struct box *box, uint32_t generation, const struct snap *snap)
{
	memset(b, 0, sizeof(*b));
	b->box = box;
	b->generation = generation;
	b->restore_fd = -1;
	if (snap == NULL)
		return 0;
	if ((b->restore_fd = snapfile_open(snap->id)) == -1)
		return -1;
	b->restores = 1;
	b->size = snap->size_bytes;
	memcpy(b->sha256, snap->sha256, sizeof(b->sha256));
	return 0;
}

void
bring_start(struct bring *b)
{
	engine_prepare(b->box->spec.image, 0, on_prepared, b);
}

void
bring_drop(struct bring *b, uint32_t reason)
{
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
}
