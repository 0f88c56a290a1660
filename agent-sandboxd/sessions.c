/* Sessions: managerd asks for a sessiond by a number of its choice, gets one end of a channel to
 * it, and hears its end. */
#include <signal.h>
#include <stdlib.h>

#include "agent-sandboxd/parent.h"
#include "common/log.h"
#include "common/pool_list.h"

static struct process *
find(struct parent *p, uint64_t session)
{
	struct process *s = p->sessions;

	while (s != NULL && s->session != session)
		s = s->next;
	return s;
}

static void
tell_over(struct parent *p, uint64_t session, int status)
{
	const struct m_session_over over = {.session = session, .status = status};

	if (p->prog[PROG_MANAGERD].chan != NULL)
		send_P_SESSION_OVER(p->prog[PROG_MANAGERD].chan, session, &over, NULL, 0, -1);
}

static void
start(struct parent *p, struct chan *c, const struct m_session *m)
{
	size_t max = 2 * (size_t)(p->set.c.num[CFG_MAX_SANDBOXES] + pool_kept(&p->set.c)) + 8;
	struct process *s = NULL;
	int end = -1;

	if (find(p, m->session) != NULL) {
		watch_breach(c, "a session was asked for twice");
		return;
	}
	if (p->nsessions >= max)
		log_warnx("managerd asks for more than %zu sessions", max);
	else
		s = start_session(p, m->session, &end);
	if (s == NULL) {
		tell_over(p, m->session, 127 << 8);
		return;
	}
	s->next = p->sessions;
	p->sessions = s;
	p->nsessions++;
	send_P_SESSION(c, m->session, m, NULL, 0, end);
}

void
sessions_message(struct chan *c, struct msg *m)
{
	struct process *managerd = chan_arg(c), *s;
	const struct m_session *session = m->payload;

	if (m->type == MSG_P_SYSLOG_ASK)
		audit_syslog(managerd->parent);
	else if (m->type == MSG_P_SESSION_START)
		start(managerd->parent, c, session);
	/* One that has just ended is no mistake: its end may be on the way. */
	else if ((s = find(managerd->parent, session->session)) != NULL)
		kill(s->pid, SIGKILL);
}

void
sessions_over(struct parent *p, struct process *s, int status)
{
	struct process **link = &p->sessions;

	while (*link != s)
		link = &(*link)->next;
	*link = s->next;
	p->nsessions--;
	tell_over(p, s->session, status);
	chan_free(s->chan);
	free(s);
}

void
sessions_overdue(struct parent *p)
{
	for (struct process *s = p->sessions; s != NULL; s = s->next) {
		if (!s->ready && now_ms() - s->started_ms > READY_MS) {
			log_warnx("sessiond[%d] is not ready after %d s", s->pid, READY_MS / 1000);
			kill(s->pid, SIGKILL);
		}
	}
}
