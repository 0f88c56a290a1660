/* managerd's messages: the environment, the guest stream, jobs, the end. managerd is one of us:
 * nonsense is fatal. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/ids.h"
#include "common/log.h"
#include "proto/managerd_sessiond.h"
#include "sessiond/args.h"
#include "sessiond/dial.h"
#include "sessiond/job.h"
#include "sessiond/session.h"

#define ENV_TOTAL_MAX (128 * 1024)
#define TIMEOUT_MAX_US (366LL * 86400 * 1000000)

#define HANDLER_MANAGERD(name, pay) CHAN_HANDLER(name, pay)
#define HANDLER_SESSIOND(name, pay)
MANAGERD_SESSIOND(CHAN_X_HANDLER)

#define CASE_MANAGERD(name, pay) CHAN_CASE(name, pay)
#define CASE_SESSIOND(name, pay)

void
manager_message(struct chan *c, struct msg *m)
{
	struct session *s = chan_arg(c);

	switch (m->type) {
		MANAGERD_SESSIOND(CHAN_X_CASE)
	}
	session_batch_end(s);
}

/* After S_END the last bytes for clients are still to be sent; session_end() has set the time for
 * that. */
void
manager_gone(struct chan *c)
{
	struct session *s = chan_arg(c);

	if (s->state != SESSION_ENDING)
		exit(0);
}

/* Whether it may still be told whose it is and what the environment is. What is sent to one that
 * has just been lost does not matter. */
static int
session_open(const struct session *s)
{
	return s->state == SESSION_NEW || (s->unclaimed && s->state >= SESSION_UP);
}

static void
session_name(struct session *s, uint64_t sandbox)
{
	char id[ID_TEXT_MAX];

	snprintf(s->name, sizeof(s->name), "sandbox %s", id_text(id, "sb_", sandbox));
}

static void
on_S_ENV(struct chan *c, const struct m_s_env *p, struct msg *m)
{
	struct session *s = chan_arg(c);

	if (!session_open(s) || p->total == 0 || p->total > ENV_TOTAL_MAX)
		fatalx("managerd: environment of %u bytes", p->total);
	if (s->env == NULL) {
		if ((s->env = malloc(p->total)) == NULL)
			fatal("environment");
		s->env_total = p->total;
	}
	if (p->total != s->env_total || m->tail_len > s->env_total - s->env_len)
		fatalx("managerd: environment does not fit");
	memcpy(s->env + s->env_len, m->tail, m->tail_len);
	s->env_len += (uint32_t)m->tail_len;
	if (s->env_len == s->env_total && !args_env_valid(s->env, s->env_len))
		fatalx("managerd: malformed environment");
}

static void
on_S_GUEST(struct chan *c, const struct m_s_guest *p, struct msg *m)
{
	struct session *s = chan_arg(c);

	if (s->state != SESSION_NEW || s->env_len != s->env_total || p->framing > GUEST_STDCOPY ||
	    !data_is_stream(m->fd))
		fatalx("managerd: unexpected guest stream");
	if (p->sandbox != 0)
		session_name(s, p->sandbox);
	s->unclaimed = p->sandbox == 0;
	s->state = SESSION_ATTACHING;
	guest_attach(s, msg_take_fd(m), p->framing);
}

static void
on_S_CLAIM(struct chan *c, const struct m_s_claim *p, struct msg *m)
{
	struct session *s = chan_arg(c);

	(void)m;
	if (!s->unclaimed || s->state < SESSION_UP || s->env_len != s->env_total || p->sandbox == 0)
		fatalx("managerd: unexpected claim");
	s->unclaimed = 0;
	session_name(s, p->sandbox);
}

/* The values are the HTTP side's, handed on: one that cannot be fails its job only. */
static void
on_S_EXEC(struct chan *c, const struct m_job_exec *p, struct msg *m)
{
	struct job *j = job_new(chan_arg(c), m->id, JOB_EXEC, msg_take_fd(m));

	if (j == NULL)
		return;
	j->exec = *p;
	if (p->args_len > RECORD_ARGS_MAX || p->timeout_us <= 0 || p->timeout_us > TIMEOUT_MAX_US ||
	    p->keep > 1 || p->kill_others > 1 || p->stdin_follows > 1 || p->must_exist > 1)
		job_fail(j, 500, "the command cannot be as it was announced");
	else
		exec_read_args(j);
}

static void
manager_file(struct chan *c, enum job_kind kind, const struct m_job_file *p, struct msg *m)
{
	struct job *j = job_new(chan_arg(c), m->id, kind, msg_take_fd(m));

	if (j == NULL)
		return;
	j->file = *p;
	if (m->tail_len == 0 || m->tail[0] != '/' || strlen(m->tail) != m->tail_len ||
	    p->mode > 0777 || p->range > RANGE_SUFFIX || p->head_only > 1) {
		job_fail(j, 500, "the request cannot be as it was announced");
		return;
	}
	if ((j->path = strdup(m->tail)) == NULL)
		fatal("job");
	job_ready(j);
}

static void
on_S_READ(struct chan *c, const struct m_job_file *p, struct msg *m)
{
	manager_file(c, JOB_READ, p, m);
}

static void
on_S_WRITE(struct chan *c, const struct m_job_file *p, struct msg *m)
{
	manager_file(c, JOB_WRITE, p, m);
}

static void
on_S_LIST(struct chan *c, const struct m_job_file *p, struct msg *m)
{
	manager_file(c, JOB_LIST, p, m);
}

static void
on_S_ARCHIVE_GET(struct chan *c, const struct m_job_file *p, struct msg *m)
{
	manager_file(c, JOB_ARCHIVE_GET, p, m);
}

static void
on_S_ARCHIVE_PUT(struct chan *c, const struct m_job_file *p, struct msg *m)
{
	manager_file(c, JOB_ARCHIVE_PUT, p, m);
}

static void
on_S_REMOVE(struct chan *c, const struct m_job_file *p, struct msg *m)
{
	manager_file(c, JOB_REMOVE, p, m);
}

static void
manager_pack(struct chan *c, enum job_kind kind, struct msg *m, const struct m_s_snapshot *snapshot,
    const struct m_s_restore *restore)
{
	struct pack *pack = pack_new(msg_take_fd(m), snapshot, restore);
	struct job *j;

	if (pack == NULL)
		fatalx("managerd: this cannot be a snapshot's file");
	if ((j = job_new(chan_arg(c), m->id, kind, -1)) == NULL) {
		pack_free(pack);
		return;
	}
	j->pack = pack;
	job_ready(j);
}

static void
on_S_SNAPSHOT(struct chan *c, const struct m_s_snapshot *p, struct msg *m)
{
	manager_pack(c, JOB_SNAPSHOT, m, p, NULL);
}

static void
on_S_RESTORE(struct chan *c, const struct m_s_restore *p, struct msg *m)
{
	manager_pack(c, JOB_RESTORE, m, NULL, p);
}

static void
on_S_KILL_ALL(struct chan *c, const struct m_s_none *p, struct msg *m)
{
	struct session *s = chan_arg(c);

	(void)p;
	(void)m;
	if (s->state == SESSION_UP)
		guest_send(s, G_KILL_ALL, 0, NULL, 0);
}

/* It may have ended meanwhile. */
static void
on_S_STOP(struct chan *c, const struct m_s_stop *p, struct msg *m)
{
	struct session *s = chan_arg(c);
	struct job *j;

	if (p->status < 400 || p->status > 599)
		fatalx("managerd: a job is to end with a strange status");
	TAILQ_FOREACH (j, &s->jobs, entry)
		if (j->id == m->id)
			break;
	if (j != NULL && j->phase != JOB_LAST)
		job_fail(j, p->status, "%s", m->tail);
}

static void
on_S_EGRESS(struct chan *c, const struct m_s_egress *p, struct msg *m)
{
	struct session *s = chan_arg(c);

	if (p->on > 1)
		fatalx("managerd: a strange way out");
	free(s->egress_list);
	if ((s->egress_list = malloc(m->tail_len + 1)) == NULL)
		fatal("egress list");
	memcpy(s->egress_list, m->tail, m->tail_len);
	s->egress_len = (uint32_t)m->tail_len;
	s->egress = p->on;
	dial_announce(s);
}

static void
on_S_DIALED(struct chan *c, const struct m_s_dialed *p, struct msg *m)
{
	if (p->verdict > DIAL_FAILED)
		fatalx("managerd: unknown verdict %u", p->verdict);
	dial_verdict(chan_arg(c), m->id, p->verdict, m->tail, (uint32_t)m->tail_len);
}

static void
on_S_END(struct chan *c, const struct m_s_end *p, struct msg *m)
{
	(void)m;
	session_end(chan_arg(c), p->reason);
}
