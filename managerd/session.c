/* Starts sessions, hands them the guest's stream and the environment, and buries them. */
#include <bsd/sys/queue.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/chan_event.h"
#include "common/ids.h"
#include "common/log.h"
#include "managerd/audit.h"
#include "managerd/dial.h"
#include "managerd/egress.h"
#include "managerd/fds.h"
#include "managerd/jobs.h"
#include "managerd/manager.h"
#include "managerd/policy.h"
#include "managerd/session.h"
#include "managerd/start.h"
#include "proto/parent.h"

#define START_US 120000000 /* until the stream is there: the engine's own deadlines are shorter */
#define UP_US 20000000     /* from then until the guest has answered */
#define RESTORE_US 900000000
#define END_US 2000000 /* from S_END until the parent kills it */

static LIST_HEAD(, session) sessions = LIST_HEAD_INITIALIZER(sessions);
static struct event *ticker;
static uint64_t last_id;

static struct session *
session_find(uint64_t id)
{
	struct session *s;

	LIST_FOREACH (s, &sessions, entry)
		if (s->id == id)
			return s;
	return NULL;
}

size_t
session_count(void)
{
	const struct session *s;
	size_t n = 0;

	LIST_FOREACH (s, &sessions, entry)
		n++;
	return n;
}

void
sessions_told(void)
{
	const struct session *s;

	LIST_FOREACH (s, &sessions, entry) {
		jobs_told(&s->late);
		if (s->box != NULL)
			jobs_told(&s->box->running);
	}
}

struct session *
session_new(struct box *box, uint32_t generation, const struct session_owner *owner, void *arg)
{
	struct m_session m = {0};
	struct session *s;

	if ((s = calloc(1, sizeof(*s))) == NULL)
		fatal("session");
	s->id = m.session = ++last_id;
	s->sandbox = box == NULL ? 0 : box->id;
	s->generation = generation;
	s->box = box;
	s->owner = owner;
	s->arg = arg;
	s->guest = -1;
	TAILQ_INIT(&s->late);
	s->deadline_us = time_boot_us() + START_US;
	LIST_INSERT_HEAD(&sessions, s, entry);
	send_P_SESSION_START(mgr.parent, s->id, &m, NULL, 0, -1);
	return s;
}

static void
env_send(struct session *s)
{
	const struct strings *env = &s->box->spec.env;
	struct m_s_env m = {.total = env->len};
	size_t at, n;

	for (at = 0; at < env->len; at += n) {
		n = env->len - at < S_ENV_CHUNK ? env->len - at : S_ENV_CHUNK;
		send_S_ENV(s->chan, s->id, &m, env->bytes + at, n, -1);
	}
}

static void
egress_send(struct session *s)
{
	struct m_s_egress m = {0};
	struct policy policy;
	const char *rule;

	policy_load(&policy, &mgr.child.config);
	rule = egress_rule(&policy.egress, &s->box->spec);
	m.on = rule != NULL;
	send_S_EGRESS(s->chan, s->id, &m, rule, rule == NULL ? 0 : strlen(rule), -1);
}

static void
guest_send(struct session *s)
{
	struct m_s_guest m = {.framing = GUEST_STDCOPY, .sandbox = s->sandbox};

	if (s->chan == NULL || s->guest == -1)
		return;
	if (s->box != NULL) {
		env_send(s);
		egress_send(s);
	}
	send_S_GUEST(s->chan, s->id, &m, NULL, 0, s->guest);
	s->guest = -1;
	s->guest_sent = 1;
	s->deadline_us = time_boot_us() + UP_US;
}

void
session_guest(struct session *s, int fd)
{
	if (s->guest != -1 || s->guest_sent)
		fatalx("a second stream for one session");
	s->guest = fd;
	guest_send(s);
}

void
session_claim(struct session *s, struct box *box, uint32_t generation)
{
	struct m_s_claim m = {.sandbox = box->id};

	if (s->box != NULL || !s->up || s->chan == NULL)
		fatalx("a session was claimed that cannot be");
	s->box = box;
	s->sandbox = box->id;
	s->generation = generation;
	env_send(s);
	egress_send(s);
	send_S_CLAIM(s->chan, s->id, &m, NULL, 0, -1);
}

void
session_kill_all(struct session *s)
{
	struct m_s_none none = {0};

	if (s->up && s->chan != NULL)
		send_S_KILL_ALL(s->chan, s->id, &none, NULL, 0, -1);
}

void
session_restore(struct session *s, int fd, int64_t size, const uint8_t sha256[32])
{
	struct m_s_restore m = {.size_bytes = size};

	memcpy(m.sha256, sha256, sizeof(m.sha256));
	s->restoring = 1;
	s->deadline_us = time_boot_us() + RESTORE_US;
	send_S_RESTORE(s->chan, s->id, &m, NULL, 0, fd);
}

void
session_adopt(struct session *s, const struct session_owner *owner, void *arg)
{
	s->owner = owner;
	s->arg = arg;
}

static void
session_kill(struct session *s)
{
	struct m_session m = {.session = s->id};

	s->killed = 1;
	send_P_SESSION_KILL(mgr.parent, s->id, &m, NULL, 0, -1);
}

/* Nobody owns it any more; it stays until the parent has reaped it. */
static void
session_forget(struct session *s)
{
	s->box = NULL;
	s->owner = NULL;
	s->restoring = 0;
	if (s->guest != -1)
		close(s->guest);
	s->guest = -1;
}

void
session_end(struct session *s, uint32_t reason)
{
	struct m_s_end m = {.reason = reason};

	session_forget(s);
	s->deadline_us = time_boot_us() + END_US;
	if (s->chan != NULL)
		send_S_END(s->chan, s->id, &m, NULL, 0, -1);
}

int
session_lingers(uint64_t sandbox, uint32_t generation)
{
	struct session *s;

	LIST_FOREACH (s, &sessions, entry)
		if (s->owner == NULL && s->sandbox == sandbox && s->generation == generation)
			return 1;
	return 0;
}

/* It cannot be used any more: whoever owns it is told. */
static void
session_lost(struct session *s, const char *text)
{
	const struct session_owner *owner = s->owner;
	void *arg = s->arg;

	session_end(s, END_BACKEND);
	if (owner != NULL)
		owner->lost(arg, text);
}

static void
session_gone(struct chan *c)
{
	struct session *s = chan_arg(c);

	s->chan = NULL;
	chan_free(c);
	if (s->owner != NULL)
		session_lost(s, "the sandbox's session was lost");
}

static void session_breach(struct session *, const char *);

/* What a sessiond does wrong costs its own sandbox's session only. */
static void
chan_broken(struct chan *c, const char *why)
{
	session_breach(chan_arg(c), why);
}

void
session_arrived(uint64_t id, int fd)
{
	struct session *s = session_find(id);

	if (s == NULL || s->chan != NULL || !fd_is_socket(fd, SOCK_SEQPACKET))
		fatalx("the parent sent a session that was not asked for");
	if (s->owner == NULL) {
		close(fd);
		session_kill(s);
		return;
	}
	s->chan = chan_event_new(mgr.base, fd, &managerd_sessiond_proto, MANAGERD, SESSIOND,
	    session_message, session_gone, s);
	chan_on_breach(s->chan, chan_broken);
	chan_event_hold(s->chan);
	guest_send(s);
}

void
session_over(uint64_t id, int status)
{
	struct session *s = session_find(id);
	struct box *box;
	uint64_t sandbox;

	if (s == NULL)
		fatalx("the parent reaped a session that was not asked for");
	if (WIFSIGNALED(status) && s->owner != NULL)
		log_warnx("a session ended with signal %d", WTERMSIG(status));
	if (status != 0 && !s->killed && s->sandbox != 0)
		audit_died(NULL, s->sandbox, status);
	if (s->owner != NULL)
		session_lost(s, "the sandbox's session was lost");
	sandbox = s->sandbox;
	jobs_late_over(s);
	LIST_REMOVE(s, entry);
	if (s->chan != NULL)
		chan_free(s->chan);
	free(s);
	if ((box = box_find(sandbox)) != NULL)
		start_reaped(box);
}

/* A session said what makes no sense: it, and only it, is ended. */
static void
session_breach(struct session *s, const char *what)
{
	log_warnx("a session sent %s: it is ended", what);
	session_kill(s);
	if (s->owner != NULL)
		session_lost(s, "the sandbox's session was lost");
}

static void
on_up(struct session *s)
{
	if (!s->guest_sent || s->up) {
		session_breach(s, "S_UP out of order");
		return;
	}
	s->up = 1;
	s->up_us = time_boot_us();
	s->deadline_us = 0;
	s->owner->up(s->arg);
}

void
session_dialed(uint64_t id, uint64_t asked, uint32_t verdict, const char *text, size_t text_len)
{
	struct session *s = session_find(id);
	struct m_s_dialed m = {.verdict = verdict};

	if (s != NULL && s->chan != NULL && s->box != NULL)
		send_S_DIALED(s->chan, asked, &m, text, text_len, -1);
}

void
session_dial_over(uint64_t id)
{
	struct session *s = session_find(id);

	if (s != NULL)
		s->dials--;
}

static void
on_down(struct session *s, struct msg *m)
{
	const struct m_s_down *down = m->payload;

	/* Before the stream was handed on, the attach is not answered: nothing can be outdated yet.
	 */
	if (down->why > DOWN_VERSION || (down->why == DOWN_VERSION && (s->up || !s->guest_sent))) {
		session_breach(s, "a strange S_DOWN");
		return;
	}
	s->outdated = down->why == DOWN_VERSION;
	session_lost(s, m->tail_len > 0 ? m->tail : "the sandbox does not answer");
}

static void
on_job_end(struct session *s, struct msg *m)
{
	const struct m_job_end *end = m->payload;

	if (m->id == s->id && s->restoring) {
		s->restoring = 0;
		s->deadline_us = 0;
		s->owner->restored(s->arg, job_status(end), m->tail);
	} else if (job_end(s->box, m->id, end, m->tail) == -1)
		session_breach(s, "the end of an unknown job");
}

void
session_message(struct chan *c, struct msg *m)
{
	struct session *s = chan_arg(c);

	if (s->owner == NULL) { /* ended: nothing else that was on its way matters */
		if (m->type == MSG_S_JOB_END)
			job_late(s, m->id, m->payload);
		return;
	}
	if (s->box == NULL && m->type != MSG_S_UP && m->type != MSG_S_DOWN) {
		if (m->type != MSG_S_DISK)
			session_breach(s, "word of a job that nobody gave it");
		return;
	}
	switch (m->type) {
	case MSG_S_UP:
		on_up(s);
		break;
	case MSG_S_DOWN:
		on_down(s, m);
		break;
	case MSG_S_SNAPPED:
		if (job_snapped(s->box, m->id, m->payload) == -1)
			session_breach(s, "an unknown snapshot");
		break;
	case MSG_S_DIAL:
		if (!s->up || s->box == NULL || dial_request(s, m) == -1)
			session_breach(s, "a strange connection");
		break;
	case MSG_S_DISK:
		job_disk(s->box, ((const struct m_s_disk *)m->payload)->free_bytes);
		break;
	case MSG_S_JOB_END:
		on_job_end(s, m);
		break;
	}
}

static void
tick(evutil_socket_t fd, short what, void *arg)
{
	struct session *s, *next;
	int64_t now = time_boot_us();

	(void)fd, (void)what, (void)arg;
	LIST_FOREACH_SAFE(s, &sessions, entry, next)
	{
		if (s->deadline_us == 0 || s->deadline_us > now)
			continue;
		s->deadline_us = 0;
		session_kill(s);
		if (s->owner != NULL)
			session_lost(s, "the sandbox did not answer in time");
		s->deadline_us = now + END_US;
	}
}

void
session_start(void)
{
	struct timeval half = {0, 500000};

	if ((ticker = event_new(mgr.base, -1, EV_PERSIST, tick, NULL)) == NULL ||
	    event_add(ticker, &half) == -1)
		fatalx("session: out of memory");
}
