/*
 * Passes dials on: the question and its socket to egressd with the sandbox's rule, the verdict
 * back, and one line to the audit log when all is over. managerd sees no byte of the connection.
 */
#include <bsd/sys/queue.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/ids.h"
#include "common/log.h"
#include "managerd/audit.h"
#include "managerd/box.h"
#include "managerd/dial.h"
#include "managerd/egress.h"
#include "managerd/fds.h"
#include "managerd/manager.h"
#include "managerd/metrics.h"
#include "managerd/policy.h"
#include "managerd/session.h"
#include "proto/managerd_egressd.h"

#define BUCKETS 1024
/* Of one session: those that wait for a verdict or flow, and those of which egressd has not yet
 * said the end. */
#define DIALS_MAX 1024
#define DIALS_BUSY 128 /* of one sandbox, while egressd does not keep up: others have room */
#define DENIALS 20     /* lines of a sandbox in a second about what was not let out */
#define QUEUED_MAX (3 * CHAN_HIGH)
_Static_assert((QUEUED_MAX + 2) * (sizeof(struct msg_header) + sizeof(struct m_e_dial) +
				      DIAL_NAME_MAX + EGRESS_TEXT_MAX) <
		   CHAN_QUEUE_BYTES,
    "dials with the longest lists do not fill egressd's queue");

struct dial {
	LIST_ENTRY(dial) entry;
	uint64_t id;
	uint64_t session;
	uint64_t sandbox;
	uint64_t asked; /* sessiond's number */
	int answered;
	int let_out; /* the answer was DIAL_OK */
	int64_t begun_us;
	uint16_t port;
	size_t name_len;
	char name[DIAL_NAME_MAX];
};

static LIST_HEAD(bucket, dial) dials[BUCKETS];
static uint64_t last_id;

static struct dial *
dial_find(uint64_t id)
{
	struct dial *d;

	LIST_FOREACH (d, &dials[id % BUCKETS], entry)
		if (d->id == id)
			return d;
	return NULL;
}

/* A line for each connection that was let out; of refusals a flood would hide them. */
static int
denied_often(uint64_t sandbox)
{
	struct box *box = box_find(sandbox);

	if (box == NULL || (++box->denials <= DENIALS && !audit_stuck()))
		return 0;
	box->undenied++;
	return 1;
}

/* More than egressd has said the end of, or than it reads: it is not asked, so that what waits for
 * it stays bounded. */
static void
dial_refuse(struct session *s, const struct msg *m, uint16_t port, const char *why)
{
	struct audit_dial line = {.sandbox = s->sandbox,
	    .name = m->tail,
	    .name_len = m->tail_len,
	    .address = "",
	    .port = port,
	    .verdict = DIAL_REFUSED,
	    .why = why};

	metrics_dial(DIAL_REFUSED);
	session_dialed(s->id, m->id, DIAL_REFUSED, why, strlen(why));
	if (!denied_often(s->sandbox))
		audit_dial(&line);
}

/* egressd's queue is everybody's: who has much under way is refused before it is long. */
static int
too_many(const struct session *s)
{
	size_t queued = chan_queued(mgr.egress);

	return s->dials >= DIALS_MAX || queued > QUEUED_MAX ||
	       (queued > CHAN_HIGH / 2 && s->dials >= DIALS_BUSY);
}

int
dial_request(struct session *s, struct msg *m)
{
	const struct m_s_dial *ask = m->payload;
	struct m_e_dial dial = {.sandbox = s->sandbox, .port = ask->port, .how = ask->how};
	struct policy policy;
	const char *rule;
	char tail[DIAL_NAME_MAX + EGRESS_TEXT_MAX];
	struct dial *d;
	size_t n;
	int fd;

	policy_load(&policy, &mgr.child.config);
	rule = egress_rule(&policy.egress, &s->box->spec);
	if (rule == NULL || m->tail_len == 0 || ask->how > DIAL_HTTP)
		return -1;
	if (audit_refuses(0) || too_many(s)) {
		dial_refuse(s, m, ask->port,
		    audit_refuses(0) ? "the audit log cannot be written" : "too many connections");
		return 0;
	}
	fd = msg_take_fd(m);
	if (!fd_is_socket(fd, SOCK_STREAM)) {
		close(fd);
		return -1;
	}
	if ((d = calloc(1, sizeof(*d))) == NULL)
		fatal("dial");
	d->id = ++last_id;
	d->session = s->id;
	d->sandbox = s->sandbox;
	d->asked = m->id;
	d->port = ask->port;
	d->begun_us = time_boot_us();
	d->name_len = m->tail_len;
	memcpy(d->name, m->tail, m->tail_len);
	LIST_INSERT_HEAD(&dials[d->id % BUCKETS], d, entry);
	s->dials++;
	n = strlen(rule);
	memcpy(tail, m->tail, m->tail_len);
	memcpy(tail + m->tail_len, rule, n);
	dial.name_len = m->tail_len;
	send_E_DIAL(mgr.egress, d->id, &dial, tail, m->tail_len + n, fd);
	return 0;
}

static void
on_dialed(struct dial *d, const struct msg *m)
{
	const struct m_e_dialed *said = m->payload;

	if (d->answered || said->verdict > DIAL_FAILED)
		fatalx("egressd sent a strange verdict");
	d->answered = 1;
	d->let_out = said->verdict == DIAL_OK;
	metrics_dial(said->verdict);
	session_dialed(d->session, d->asked, said->verdict, m->tail, m->tail_len);
}

static void
denials_say(struct box *box, void *arg)
{
	(void)arg;
	box->denials = 0;
	if (box->undenied == 0 || audit_stuck())
		return; /* what room there is is for what is under way */
	audit_dials(box->id, box->undenied);
	box->undenied = 0;
}

static void
tick(evutil_socket_t fd, short what, void *arg)
{
	(void)fd, (void)what, (void)arg;
	box_each(denials_say, NULL);
}

/* A line for each that was let out and whose end nobody will tell. */
static void
dial_stop(void)
{
	struct dial *d;

	for (size_t i = 0; i < BUCKETS; i++)
		while ((d = LIST_FIRST(&dials[i])) != NULL) {
			struct audit_dial line = {.sandbox = d->sandbox,
			    .name = d->name,
			    .name_len = d->name_len,
			    .address = "",
			    .port = d->port,
			    .verdict = DIAL_OK,
			    .why = "the server ended",
			    .bytes_in = -1,
			    .bytes_out = -1,
			    .duration_us = time_boot_us() - d->begun_us};

			if (d->let_out)
				audit_dial(&line);
			LIST_REMOVE(d, entry);
			free(d);
		}
}

void
dial_start(void)
{
	const struct timeval second = {1, 0};
	struct event *ticker;

	if ((ticker = event_new(mgr.base, -1, EV_PERSIST, tick, NULL)) == NULL ||
	    event_add(ticker, &second) == -1)
		fatalx("dial: out of memory");
	if (atexit(dial_stop) != 0)
		fatalx("dial: atexit");
}

static void
on_dial_end(struct dial *d, const struct msg *m)
{
	const struct m_e_dial_end *end = m->payload;
	struct audit_dial line = {.sandbox = d->sandbox,
	    .name = d->name,
	    .name_len = d->name_len,
	    .address = end->address,
	    .port = d->port,
	    .verdict = end->verdict,
	    .why = m->tail,
	    .bytes_in = end->bytes_in,
	    .bytes_out = end->bytes_out,
	    .duration_us = end->duration_us};

	if (!d->answered || end->verdict > DIAL_FAILED ||
	    memchr(end->address, '\0', sizeof(end->address)) == NULL)
		fatalx("egressd sent a strange end");
	/* Also when it was refused later: at the limit of bytes, many have gone out. */
	if (d->let_out || !denied_often(d->sandbox))
		audit_dial(&line);
	session_dial_over(d->session);
	LIST_REMOVE(d, entry);
	free(d);
}

void
dial_message(struct chan *c, struct msg *m)
{
	struct dial *d = dial_find(m->id);

	(void)c;
	if (d == NULL)
		fatalx("egressd spoke of a connection that there is not");
	if (m->type == MSG_E_DIALED)
		on_dialed(d, m);
	else
		on_dial_end(d, m);
}

void
dial_forget(struct box *box)
{
	struct m_e_forget m = {.sandbox = box->id};

	denials_say(box, NULL);
	send_E_FORGET(mgr.egress, 0, &m, NULL, 0, -1);
}
