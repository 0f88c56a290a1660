/* What concerns the whole session: up, down, its end, and the turn of those that wait. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>

#include "common/ids.h"
#include "common/log.h"
#include "sessiond/dial.h"
#include "sessiond/job.h"
#include "sessiond/session.h"

#define DISK_PERIOD_US 1000000

void
session_init(struct session *s, struct event_base *base)
{
	memset(s, 0, sizeof(*s));
	s->base = base;
	s->guest.fd = -1;
	TAILQ_INIT(&s->jobs);
	TAILQ_INIT(&s->dirty);
	snprintf(s->name, sizeof(s->name), "the sandbox");
}

void
session_up(struct session *s, uint32_t guest_version)
{
	s->state = SESSION_UP;
	send_S_UP(s->manager, 0, &(struct m_s_up){.guest_version = guest_version}, NULL, 0, -1);
	dial_announce(s);
	session_room(s);
}

static void
session_lose_jobs(struct session *s, uint32_t status, const char *text)
{
	struct job *j, *next;

	for (j = TAILQ_FIRST(&s->jobs); j != NULL; j = next) {
		next = TAILQ_NEXT(j, entry);
		job_lost(j, status, text);
	}
}

void
session_down(struct session *s, const char *why)
{
	char text[128];

	if (s->state == SESSION_DOWN || s->state == SESSION_ENDING)
		return;
	log_warnx("%s: session ends: %s", s->name, why);
	s->state = SESSION_DOWN;
	guest_close(s);
	dial_drop_all(s);
	send_S_DOWN(s->manager, 0, &s->down, why, strlen(why), -1);
	snprintf(text, sizeof(text), "the engine lost %s", s->name);
	session_lose_jobs(s, 502, text);
}

static void
session_exit(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	event_base_loopbreak(arg);
}

void
session_end(struct session *s, uint32_t reason)
{
	static const struct {
		uint32_t status;
		const char *before, *after;
	} ends[] = {
	    [END_DELETED] = {409, "", " was deleted"},
	    [END_EXPIRED] = {409, "", " expired"},
	    [END_ROLLED_BACK] = {409, "", " was rolled back"},
	    [END_BACKEND] = {502, "the engine lost ", ""},
	    [END_SHUTDOWN] = {503, "the server is going down", NULL},
	};
	static const struct timeval second = {1, 0};
	char text[128];

	if (reason > END_SHUTDOWN)
		fatalx("managerd: unknown end %u", reason);
	if (s->state == SESSION_ENDING)
		return;
	if (reason == END_ROLLED_BACK && s->state == SESSION_UP) {
		/* Nothing of the old one runs when the new one is there, and nobody hears of its
		 * end. */
		guest_send(s, G_KILL_ALL, 0, NULL, 0);
		guest_flush(s);
	}
	s->state = SESSION_ENDING;
	guest_close(s);
	dial_drop_all(s);
	if (ends[reason].after == NULL)
		snprintf(text, sizeof(text), "%s", ends[reason].before);
	else
		snprintf(
		    text, sizeof(text), "%s%s%s", ends[reason].before, s->name, ends[reason].after);
	session_lose_jobs(s, ends[reason].status, text);
	if (event_base_once(s->base, -1, EV_TIMEOUT, session_exit, s->base, &second) == -1)
		fatalx("session: event");
}

/* Requests and credit first, since they are small; then uploads, each time beginning with another
 * one. */
void
session_room(struct session *s)
{
	struct job *j, *next;
	unsigned turns;

	for (j = TAILQ_FIRST(&s->jobs); j != NULL; j = next) {
		next = TAILQ_NEXT(j, entry);
		if (j->phase == JOB_WAITING)
			job_begin(j);
		else if (j->phase == JOB_OPEN)
			job_give(j);
	}
	for (turns = s->njobs; turns > 0 && !guest_full(s); turns--) {
		j = TAILQ_FIRST(&s->jobs);
		TAILQ_REMOVE(&s->jobs, j, entry);
		TAILQ_INSERT_TAIL(&s->jobs, j, entry);
		job_pump(j);
	}
	dial_room(s);
}

void
session_batch_end(struct session *s)
{
	int was_full;

	for (;;) {
		while (!TAILQ_EMPTY(&s->dirty))
			job_flush(TAILQ_FIRST(&s->dirty));
		was_full = guest_full(s);
		guest_flush(s);
		if (!was_full || guest_full(s))
			break;
		session_room(s); /* what it queued is flushed in the next round */
	}
	if (s->njobs == 0 && s->ndials == 0)
		guest_idle(s);
	if (s->state == SESSION_ENDING && TAILQ_EMPTY(&s->jobs) && chan_queued(s->manager) == 0)
		event_base_loopbreak(s->base);
}

void
session_freeze(struct session *s, int on)
{
	int64_t now = time_boot_us();

	if (on && s->freezers++ == 0)
		s->frozen_since_us = now;
	else if (!on && --s->freezers == 0)
		s->frozen_us += now - s->frozen_since_us;
}

int64_t
session_clock_us(const struct session *s)
{
	int64_t now = s->freezers > 0 ? s->frozen_since_us : time_boot_us();

	return now - s->frozen_us;
}

void
session_disk(struct session *s, const struct g_stat *stat)
{
	struct m_s_disk m = {.free_bytes = stat->free_bytes, .free_inodes = stat->free_inodes};
	int64_t now = time_boot_us();

	if (s->disk_said_us != 0 && now - s->disk_said_us < DISK_PERIOD_US)
		return;
	s->disk_said_us = now;
	send_S_DISK(s->manager, 0, &m, NULL, 0, -1);
}
