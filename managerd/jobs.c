/* Authorises jobs and hands them to their sandbox's session, or keeps a bounded number until it is
 * up. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/log.h"
#include "managerd/engine.h"
#include "managerd/fds.h"
#include "managerd/jobs.h"
#include "managerd/keys.h"
#include "managerd/manager.h"
#include "managerd/quota.h"
#include "managerd/reconcile.h"
#include "managerd/session.h"
#include "managerd/start.h"

#define WAITING_MAX 64
#define WAITING_ALL_MAX 4096 /* each holds a descriptor */
#define RUNNING_MAX 256
#define SHRINK_BYTES (1024 * 1024)
#define DISK_LOG_US 60000000 /* between two lines about the disk of one sandbox */

static uint64_t last_id = 1ULL << 32; /* apart from the ids of sessions */

void
job_free(struct job *job)
{
	if (job->fd != -1)
		close(job->fd);
	if (job->type == MSG_S_EXEC)
		job->rq.tenant->execs--;
	if (job->snap != NULL)
		snap_free(job->snap);
	free(job->tail);
	free(job);
}

static struct job *
job_new(uint32_t type, const struct request *rq, struct msg *m)
{
	struct job *job;

	if ((job = calloc(1, sizeof(*job))) == NULL ||
	    (job->tail = malloc(m->tail_len + 1)) == NULL)
		fatal("job");
	job->id = ++last_id;
	job->type = type;
	job->rq = *rq;
	if (type == MSG_S_EXEC)
		rq->tenant->execs++;
	job->status = 503;
	job->tail_len = m->tail_len;
	memcpy(job->tail, m->tail, m->tail_len);
	job->tail[m->tail_len] = '\0';
	job->fd = -1;
	return job;
}

/* Takes the data socket; anything else is apid's fault. */
static int
socket_take(struct msg *m)
{
	int fd = msg_take_fd(m);

	if (!fd_is_socket(fd, SOCK_STREAM))
		fatalx("apid sent no data socket");
	return fd;
}

/* Gives the job to the session. The job is then in the running list, or over. */
static void
job_send(struct box *box, struct job *job)
{
	struct session *s = box->session;

	if (job->type == MSG_S_SNAPSHOT) {
		if (snapshot_send(box, job) == -1)
			return;
	} else {
		chan_send(s->chan, job->type, job->id, &job->m,
		    job->type == MSG_S_EXEC ? sizeof(job->m.exec) : sizeof(job->m.file), job->tail,
		    job->tail_len, job->fd);
		job->fd = -1;
		free(job->tail);
		job->tail = NULL;
		request_accepted(&job->rq);
	}
	TAILQ_INSERT_TAIL(&box->running, job, entry);
}

int
session_ready(const struct box *box)
{
	return box->session != NULL && box->session->up && box->session->chan != NULL;
}

/* Whether a job may go to this sandbox at all; if not, it is answered. */
struct box *
request_box(struct request *rq, uint64_t id)
{
	struct box *box = box_find(id);
	char text[ID_TEXT_MAX];

	request_target(rq, "sb_", id);
	id_text(text, "sb_", id);
	if (box == NULL || !(box->run ? box_serves_run(box) && box->runner == rq->key
				      : box_shown(box) && request_may_see(rq, box->tenant))) {
		request_no_sandbox(rq, id);
		return NULL;
	}
	if (box->state == BOX_ROLLING_BACK) {
		request_reply(rq, 409, "sandbox %s is rolling back", text);
		return NULL;
	}
	if (box->state == BOX_DESTROYING) {
		request_reply(rq, 409, "sandbox %s is being destroyed", text);
		return NULL;
	}
	return box;
}

static size_t
running_count(const struct box *box)
{
	const struct job *job;
	size_t n = 0;

	TAILQ_FOREACH (job, &box->running, entry)
		n++;
	return n;
}

static size_t
waiting_count(void)
{
	const struct box *box;
	const struct job *job;
	size_t n = 0;

	TAILQ_FOREACH (box, &boxes, order)
		TAILQ_FOREACH (job, &box->waiting, entry)
			n += job->fd != -1;
	return n;
}

/* Takes the job. */
static void
job_submit(struct box *box, struct job *job)
{
	if (job->writes && box->disk_low)
		request_reply(
		    &job->rq, 507, "the disk that holds the sandbox's workspace is almost full");
	else if (running_count(box) >= RUNNING_MAX)
		request_retry(&job->rq, 429, 1, "too many requests at once for this sandbox");
	else if (job->type == MSG_S_SNAPSHOT && snapshot_waits(box, job) &&
		 snapshots_waiting(box->tenant) >= WAITING_MAX)
		request_retry(
		    &job->rq, 429, 1, "too many snapshots wait for one that is being made");
	else if (session_ready(box) && chan_queued(box->session->chan) > CHAN_LOW)
		request_retry(&job->rq, 503, 1, "the sandbox's session takes no more requests now");
	else if (session_ready(box)) {
		job_send(box, job);
		return;
	} else if (!engine_up())
		request_reply(&job->rq, 502, "%s", engine_why());
	else if (!reconcile_done())
		request_retry(&job->rq, 503, 1, "the server is starting");
	else if (box->nwaiting >= WAITING_MAX || waiting_count() >= WAITING_ALL_MAX)
		request_retry(&job->rq, 503, 1,
		    "the sandbox is being started and too many requests wait for it");
	else {
		TAILQ_INSERT_TAIL(&box->waiting, job, entry);
		box->nwaiting++;
		start_box(box);
		return;
	}
	job_free(job);
}

void
job_exec(struct request *rq, struct msg *m)
{
	const struct m_exec *ask = m->payload;
	int64_t max_us = CFG(MAX_EXEC_TIMEOUT_SECONDS) / 1000;
	struct box *box;
	struct job *job;
	int fd = socket_take(m);

	memcpy(rq->args_sha256, ask->job.args_sha256, sizeof(rq->args_sha256));
	rq->args_len = ask->job.args_len;
	rq->has_args = 1;
	if ((box = request_box(rq, ask->sandbox)) == NULL) {
		close(fd);
		return;
	}
	if (ask->job.timeout_us <= 0 || ask->job.timeout_us > max_us) {
		close(fd);
		request_reply(rq, 400,
		    "timeout_seconds: must be above 0 and at most %g on this server", max_us / 1e6);
		return;
	}
	if (quota_exec(rq) == -1) {
		close(fd);
		return;
	}
	job = job_new(MSG_S_EXEC, rq, m);
	job->m.exec = ask->job;
	job->fd = fd;
	job_submit(box, job);
}

static const struct file_kind {
	uint32_t asked, type;
	int writes;
} file_kinds[] = {
    {MSG_FILE_READ, MSG_S_READ, 0},
    {MSG_FILE_WRITE, MSG_S_WRITE, 1},
    {MSG_FILE_LIST, MSG_S_LIST, 0},
    {MSG_ARCHIVE_GET, MSG_S_ARCHIVE_GET, 0},
    {MSG_ARCHIVE_PUT, MSG_S_ARCHIVE_PUT, 1},
    {MSG_FILE_REMOVE, MSG_S_REMOVE, 0},
};

void
job_file(struct request *rq, struct msg *m)
{
	const struct m_file *ask = m->payload;
	const struct file_kind *kind = file_kinds;
	struct box *box;
	struct job *job;
	int64_t max;
	int fd = socket_take(m);

	while (kind->asked != m->type)
		kind++;
	if ((box = request_box(rq, ask->sandbox)) == NULL) {
		close(fd);
		return;
	}
	if (m->tail_len == 0 || m->tail[0] != '/' || strlen(m->tail) != m->tail_len)
		fatalx("apid sent a path that is none");
	job = job_new(kind->type, rq, m);
	job->m.file = ask->job;
	max = kind->asked == MSG_FILE_READ || kind->asked == MSG_FILE_WRITE
		  ? CFG(MAX_FILE_BYTES)
		  : CFG(MAX_SNAPSHOT_BYTES);
	if (job->m.file.max < 0 || job->m.file.max > max)
		job->m.file.max = max;
	job->m.file.mode &= 0777;
	job->writes = kind->writes;
	job->fd = fd;
	job_submit(box, job);
}

void
job_snapshot(struct request *rq, struct msg *m)
{
	const struct m_snapshot_make *ask = m->payload;
	struct box *box;
	struct job *job;

	if (strlen(m->tail) != m->tail_len)
		fatalx("apid sent a snapshot name that is none");
	if ((box = request_box(rq, ask->sandbox)) == NULL)
		return;
	job = job_new(MSG_S_SNAPSHOT, rq, m);
	if (!ask->has_name) {
		free(job->tail);
		job->tail = NULL;
	}
	job_submit(box, job);
}

/* Hands on all that wait and can. */
void
jobs_flush(struct box *box)
{
	struct job *job, *next;

	TAILQ_FOREACH_SAFE (job, &box->waiting, entry, next) {
		if (job->type == MSG_S_SNAPSHOT && snapshot_waits(box, job))
			continue;
		TAILQ_REMOVE(&box->waiting, job, entry);
		box->nwaiting--;
		job_send(box, job);
	}
}

void
jobs_fail_waiting(struct box *box, uint32_t status, const char *text)
{
	struct job *job;

	while ((job = TAILQ_FIRST(&box->waiting)) != NULL) {
		TAILQ_REMOVE(&box->waiting, job, entry);
		box->nwaiting--;
		request_reply(&job->rq, status, "%s", text);
		job_free(job);
	}
}

void
jobs_fail_running(struct box *box, struct session *ended, uint32_t status)
{
	char id[ID_TEXT_MAX];
	struct job *job;

	id_text(id, "sb_", box->id);
	while ((job = TAILQ_FIRST(&box->running)) != NULL) {
		TAILQ_REMOVE(&box->running, job, entry);
		if (job->type == MSG_S_SNAPSHOT) {
			snapshot_abandon(box, job);
			request_reply(&job->rq, status,
			    status == 409
				? "sandbox %s ended before the snapshot was made"
				: "the session of sandbox %s was lost; no snapshot was made",
			    id);
		} else if (ended != NULL) {
			job->status = status;
			TAILQ_INSERT_TAIL(&ended->late, job, entry);
			continue;
		} else
			request_ended(&job->rq, status, NULL);
		job_free(job);
	}
}

void
jobs_told(const struct job_list *jobs)
{
	struct job *job;

	TAILQ_FOREACH (job, jobs, entry)
		request_ended(&job->rq, job->status, NULL);
}

void
jobs_late_over(struct session *s)
{
	struct job *job;

	jobs_told(&s->late);
	while ((job = TAILQ_FIRST(&s->late)) != NULL) {
		TAILQ_REMOVE(&s->late, job, entry);
		job_free(job);
	}
}

static int
job_revoked(const struct job *job, int64_t now_s)
{
	const struct request *rq = &job->rq;

	return !job->revoked && !keys_still(rq->key, rq->addr, rq->scope, now_s);
}

void
jobs_revoke(struct box *box, int64_t now_s)
{
	static const char text[] = "the key was revoked";
	struct m_s_stop stop = {.status = 401};
	struct job *job, *next;

	TAILQ_FOREACH_SAFE (job, &box->waiting, entry, next) {
		if (!job_revoked(job, now_s))
			continue;
		TAILQ_REMOVE(&box->waiting, job, entry);
		box->nwaiting--;
		request_reply(&job->rq, 401, "%s", text);
		job_free(job);
	}
	TAILQ_FOREACH (job, &box->running, entry) {
		if (box->session == NULL || box->session->chan == NULL ||
		    job->type == MSG_S_SNAPSHOT || !job_revoked(job, now_s))
			continue;
		job->revoked = 1;
		send_S_STOP(box->session->chan, job->id, &stop, text, sizeof(text) - 1, -1);
	}
}

static struct job *
job_find(const struct job_list *jobs, uint64_t id)
{
	struct job *job;

	TAILQ_FOREACH (job, jobs, entry)
		if (job->id == id)
			return job;
	return NULL;
}

uint32_t
job_status(const struct m_job_end *end)
{
	return end->status >= 200 && end->status <= 599 ? end->status : 502;
}

static void
job_ended(struct job *job, const struct m_job_end *end)
{
	int exited = job->type == MSG_S_EXEC && end->exit_code >= 0;

	request_ended(&job->rq, job_status(end), exited ? &end->exit_code : NULL);
}

int
job_end(struct box *box, uint64_t id, const struct m_job_end *end, const char *text)
{
	struct job *job;
	uint32_t status = job_status(end);

	if (id == box->snapped) { /* told by S_SNAPPED already */
		box->snapped = 0;
		return 0;
	}
	if ((job = job_find(&box->running, id)) == NULL)
		return -1;
	TAILQ_REMOVE(&box->running, job, entry);
	if (job->type == MSG_S_SNAPSHOT) {
		if (status < 400)
			status = 502;
		snapshot_abandon(box, job);
		request_reply(&job->rq, status, "%s", *text != '\0' ? text : "the snapshot failed");
	} else
		job_ended(job, end);
	job_free(job);
	return 0;
}

void
job_late(struct session *s, uint64_t id, const struct m_job_end *end)
{
	struct job *job = job_find(&s->late, id);

	if (job == NULL)
		return;
	TAILQ_REMOVE(&s->late, job, entry);
	job_ended(job, end);
	job_free(job);
}

int
job_snapped(struct box *box, uint64_t id, const struct m_s_snapped *m)
{
	struct job *job = job_find(&box->running, id);

	if (job == NULL || job->type != MSG_S_SNAPSHOT)
		return -1;
	TAILQ_REMOVE(&box->running, job, entry);
	box->snapped = id;
	snapshot_finish(box, job, m);
	job_free(job);
	return 0;
}

/*
 * Below the floor commands are ended: once, and again for as long as the space shrinks, so that
 * what frees space can still be run. What a session says costs the others nothing, however often.
 */
void
job_disk(struct box *box, int64_t free_bytes)
{
	struct m_s_none none = {0};
	int64_t before = box->disk_free, now = time_boot_us();
	char id[ID_TEXT_MAX];

	box->disk_free = free_bytes;
	if (free_bytes >= CFG(DISK_FLOOR_MB) * 1024 * 1024) {
		box->disk_low = 0;
		return;
	}
	if (box->disk_low && free_bytes > before - SHRINK_BYTES)
		return;
	if (!box->disk_low && now >= box->disk_log_us) {
		log_warnx(
		    "the disk of sandbox %s has less than %lld MiB free: its commands are ended",
		    id_text(id, "sb_", box->id), (long long)CFG(DISK_FLOOR_MB));
		box->disk_log_us = now + DISK_LOG_US;
	}
	box->disk_low = 1;
	if (session_ready(box) && chan_queued(box->session->chan) == 0)
		send_S_KILL_ALL(box->session->chan, box->session->id, &none, NULL, 0, -1);
}
