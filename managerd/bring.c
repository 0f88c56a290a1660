/* The steps from nothing to a sandbox that takes jobs. */
#include <bsd/string.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "managerd/bring.h"
#include "managerd/engine.h"
#include "managerd/session.h"
#include "managerd/snap.h"
#include "managerd/store.h"

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

static void
on_lost(void *arg, const char *text)
{
	struct bring *b = arg;

	b->session = NULL;
	bring_fail(b, 502, text);
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
	engine_prepare(b->box->spec.image, on_prepared, b);
}

void
bring_drop(struct bring *b, uint32_t reason)
{
	engine_drop(b);
	if (b->session != NULL)
		session_end(b->session, reason);
	b->session = NULL;
	if (b->restore_fd != -1)
		close(b->restore_fd);
	b->restore_fd = -1;
}
