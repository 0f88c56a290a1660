/* Makes snapshots: the session writes a file that managerd opened; when it is whole it becomes one
 * with its record. */
#include <bsd/string.h>
#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "managerd/jobs.h"
#include "managerd/manager.h"
#include "managerd/quota.h"
#include "managerd/session.h"
#include "managerd/snapshot.h"
#include "managerd/store.h"

/* So long one waits for its tenant's quota: a sandbox can make its own last for hours, and is not
 * to keep the tenant's others for that. */
#define LINE_US 60000000

/* What there is to say of it before it is made. */
static struct snap *
snapshot_of(const struct box *box, struct job *job)
{
	struct snap *snap = snap_new(0);

	snap->tenant = box->tenant;
	snap->sandbox = box->id;
	snap->parent = box->source;
	snap->name = job->tail;
	job->tail = NULL;
	spec_copy(&snap->spec, &box->spec);
	free(snap_record(snap)); /* for its size, to which its numbers add some digits */
	return snap;
}

struct turn {
	const struct tenant *tenant; /* NULL: any */
	struct box *box;
	uint64_t job;
};

/* Whether what waits there waits for another sandbox's, and not for one of its own or for its
 * start. */
static int
in_line(const struct box *box)
{
	return box->nwaiting > 0 && box->state == BOX_RUNNING && session_ready(box) &&
	       box->snapshot == NULL;
}

static void
turn_look(struct box *box, void *arg)
{
	struct turn *turn = arg;
	const struct job *job;

	if (!in_line(box) || quota_snapshot_waits(box->tenant) ||
	    (turn->tenant != NULL && turn->tenant != box->tenant))
		return;
	TAILQ_FOREACH (job, &box->waiting, entry)
		if (job->type == MSG_S_SNAPSHOT && (turn->box == NULL || job->id < turn->job)) {
			turn->box = box;
			turn->job = job->id;
		}
}

/* Whose turn it is, of all sandboxes: who waits longest goes first. */
static void
turns(evutil_socket_t fd, short what, void *arg)
{
	struct turn turn;

	(void)fd, (void)what, (void)arg;
	for (;;) {
		turn = (struct turn){0};
		box_each(turn_look, &turn);
		if (turn.box == NULL)
			return;
		jobs_flush(turn.box);
	}
}

static void
turns_soon(void)
{
	static struct event *soon;

	if (soon == NULL && (soon = event_new(mgr.base, -1, 0, turns, NULL)) == NULL)
		fatalx("snapshot: out of memory");
	event_active(soon, EV_TIMEOUT, 0);
}

/* One at a time for each sandbox, and as many of a tenant as its quota has room for whatever
 * becomes of them: the others wait, and nobody goes before who waits longer. */
int
snapshot_waits(const struct box *box, const struct job *job)
{
	struct turn turn = {.tenant = box->tenant};

	if (box->snapshot != NULL || quota_snapshot_waits(box->tenant))
		return 1;
	box_each(turn_look, &turn);
	if (turn.box == NULL || turn.job >= job->id)
		return 0;
	turns_soon();
	return 1;
}

int
snapshot_pending(const struct box *box)
{
	const struct job *job;

	if (box->snapshot != NULL)
		return 1;
	if (box->state == BOX_RUNNING)
		TAILQ_FOREACH (job, &box->waiting, entry)
			if (job->type == MSG_S_SNAPSHOT)
				return 1;
	return 0;
}

struct waiting {
	const struct tenant *tenant;
	size_t n;
};

static void
waiting_add(struct box *box, void *arg)
{
	struct waiting *w = arg;
	const struct job *job;

	if (box->tenant == w->tenant)
		TAILQ_FOREACH (job, &box->waiting, entry)
			w->n += job->type == MSG_S_SNAPSHOT;
}

size_t
snapshots_waiting(const struct tenant *t)
{
	struct waiting w = {.tenant = t};

	box_each(waiting_add, &w);
	return w.n;
}

static void
line_look(struct box *box, void *arg)
{
	const int64_t *now = arg;
	struct job *job, *next;

	TAILQ_FOREACH_SAFE (job, &box->waiting, entry, next) {
		if (job->type != MSG_S_SNAPSHOT)
			continue;
		if (!in_line(box))
			job->line_us = 0;
		else if (job->line_us == 0)
			job->line_us = *now;
		else if (*now - job->line_us >= LINE_US) {
			TAILQ_REMOVE(&box->waiting, job, entry);
			box->nwaiting--;
			request_retry(&job->rq, 429, 5,
			    "another snapshot of the tenant may need what is left of its quota; "
			    "try again");
			job_free(job);
		}
	}
}

void
snapshots_look(void)
{
	int64_t now = time_boot_us();

	turns(-1, 0, NULL); /* there may be more of the quota than there was */
	box_each(line_look, &now);
}

/* It takes nothing more of the quota than what was kept of it. */
static void
snapshot_over(struct box *box, struct snap *snap)
{
	box->snapshot = NULL;
	quota_snapshot_release(snap);
	turns_soon();
}

int
snapshot_send(struct box *box, struct job *job)
{
	struct m_s_snapshot m = {.max_bytes = CFG(MAX_SNAPSHOT_BYTES)};
	int fd;

	strlcpy(m.request_id, job->rq.request_id, sizeof(m.request_id));
	if (snapshot_waits(box, job)) {
		TAILQ_INSERT_TAIL(&box->waiting, job, entry);
		box->nwaiting++;
		return -1;
	}
	if (snap_count() >= (size_t)CFG(MAX_SNAPSHOTS)) {
		request_retry(&job->rq, 429, 5,
		    "the limit of %lld snapshots is reached; delete one or try again later",
		    (long long)CFG(MAX_SNAPSHOTS));
		job_free(job);
		return -1;
	}
	job->snap = snapshot_of(box, job);
	if (quota_snapshot(&job->rq, job->snap) == -1) {
		job_free(job);
		return -1;
	}
	if ((fd = snapfile_begin(job->snap->id)) == -1) {
		log_warn("a snapshot's file");
		request_disk(&job->rq);
		job_free(job);
		return -1;
	}
	m.max_stored = quota_snapshot_reserve(job->snap);
	box->snapshot = job;
	send_S_SNAPSHOT(box->session->chan, job->id, &m, NULL, 0, fd);
	return 0;
}

void
snapshot_abandon(struct box *box, struct job *job)
{
	snapfile_abandon(job->snap->id);
	snapshot_over(box, job->snap);
}

/* It was made, and cannot be written; errno says why. */
static void
snapshot_unkept(struct job *job)
{
	uint64_t id = job->snap->id;
	int saved = errno;

	log_request(job->rq.request_id);
	log_warn("a snapshot cannot be kept");
	log_request(NULL);
	snapfile_abandon(id);
	snapfile_remove(id);
	errno = saved;
	request_disk(&job->rq);
}

void
snapshot_finish(struct box *box, struct job *job, const struct m_s_snapped *m)
{
	struct snap *snap = job->snap;
	char *record;

	snapshot_over(box, snap);
	snap->size_bytes = m->size_bytes;
	snap->stored_bytes = m->stored_bytes;
	memcpy(snap->sha256, m->sha256, sizeof(snap->sha256));
	snap->created_us = time_wall_us();
	if (m->size_bytes < 0 || m->size_bytes > CFG(MAX_SNAPSHOT_BYTES)) {
		snapfile_abandon(snap->id);
		request_reply(&job->rq, 413,
		    "the workspace is larger than the %lld bytes of a snapshot",
		    (long long)CFG(MAX_SNAPSHOT_BYTES));
		return;
	}
	record = snap_record(snap);
	if (quota_snapshot(&job->rq, snap) == -1) {
		snapfile_abandon(snap->id);
		free(record);
		return;
	}
	if (snapfile_commit(snap->id, m->stored_bytes) == -1)
		free(record); /* which leaves errno */
	else if (snap_save(snap, record) == 0) {
		job->snap = NULL;
		snap_list(snap);
		request_snapshot(&job->rq, snap);
		return;
	}
	snapshot_unkept(job);
}

int
snapshot_delete(struct snap *snap)
{
	char name[STORE_NAME_MAX];

	/* The record first: a file without one is removed at the next start. */
	if (store_remove(STORE_SNAPSHOTS, store_name(name, "snap_", snap->id, ".json")) == -1)
		return -1;
	if (snapfile_remove(snap->id) == -1)
		log_warn("a snapshot's file");
	snap_free(snap);
	return 0;
}
