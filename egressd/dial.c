/* The life of a connection but for its connecting and its bytes; see dial.h. */
#include "egressd/dial.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/log.h"

#define SECOND INT64_C(1000000)
#define RESOLVE_US (10 * SECOND)
#define TICK_US (5 * SECOND) /* how often it is seen that a client has gone */
#define LOOKUPS_MAX 32       /* of a sandbox at once */

static void
tell(uint64_t id, enum dial_verdict verdict, const char *text, size_t len)
{
	send_E_DIALED(egressd.manager, id, &(struct m_e_dialed){.verdict = verdict}, text, len, -1);
}

/* For what was never begun. */
static void
refuse(uint64_t id, enum reason reason, int fd)
{
	char text[DIAL_TEXT_MAX];
	size_t len = (size_t)reason_text(reason, "", "", text);
	struct m_e_dial_end end = {.verdict = reason_verdict(reason)};

	close(fd);
	tell(id, reason_verdict(reason), text, len);
	send_E_DIAL_END(egressd.manager, id, &end, text, len, -1);
}

static void on_resolved(void *, const struct resolved *);

/* Asks for as many names as the box may. An answer may be there at once: those that it makes room
 * for are asked for here too, not one within the other. */
static void
look_up(struct box *box)
{
	struct dial *d;

	if (box->asking)
		return;
	box->asking = 1;
	while (box->lookups < LOOKUPS_MAX && (d = TAILQ_FIRST(&box->unasked)) != NULL) {
		TAILQ_REMOVE(&box->unasked, d, turn);
		d->waits = 0;
		box->lookups++;
		resolve_name(d->host.name, &d->lookup, on_resolved, d);
	}
	box->asking = 0;
}

/* That of a dial which has ended. */
static void
lookup_over(void *arg)
{
	struct box *box = arg;

	box->lookups--;
	look_up(box);
	box_release(box);
}

/* An event that was never set up cannot be taken away. */
static void
forget_event(struct event *ev)
{
	if (event_initialized(ev))
		event_del(ev);
}

void
dial_cut(struct dial *d)
{
	static const struct linger reset = {.l_onoff = 1};

	if (d->outside == -1)
		return;
	setsockopt(d->outside, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	close(d->outside);
	d->outside = -1;
}

static void
close_both(struct dial *d, enum reason reason)
{
	/* What did not end well is a reset on either side. */
	if (reason != REASON_NONE)
		dial_cut(d);
	if (d->outside != -1)
		close(d->outside);
	close(d->inside);
}

void
dial_end(struct dial *d, enum reason reason)
{
	char text[DIAL_TEXT_MAX];
	size_t len = (size_t)reason_text(reason, d->address, d->kind, text);
	struct m_e_dial_end end = {.bytes_in = d->in.bytes,
	    .bytes_out = d->out.bytes,
	    .duration_us = egressd_now() - d->begun,
	    .verdict = reason_verdict(reason)};

	if (!d->told)
		tell(d->id, reason_verdict(reason), text, len);
	else if (end.verdict == DIAL_FAILED)
		end.verdict = DIAL_OK; /* it was let out; the text says how it ended */
	memcpy(end.address, d->address, sizeof(end.address));
	send_E_DIAL_END(egressd.manager, d->id, &end, text, len, -1);
	forget_event(&d->timer);
	forget_event(&d->connecting);
	relay_free(d);
	close_both(d, reason);
	egressd.dials--;
	LIST_REMOVE(d, entry);
	if (d->waits)
		TAILQ_REMOVE(&d->box->unasked, d, turn);
	if (d->lookup != NULL)
		resolve_abandon(d->lookup, lookup_over, d->box);
	else
		box_release(d->box);
	free(d);
}

void
dial_forget(uint64_t sandbox)
{
	struct box *box = box_find(sandbox);

	if (box == NULL)
		return;
	while (!LIST_EMPTY(&box->list))
		dial_end(LIST_FIRST(&box->list), REASON_FORGOTTEN);
	box_forget(box);
}

static int64_t
sooner(int64_t a, int64_t b)
{
	return b != 0 && b < a ? b : a;
}

/* When it must be looked at again, at the latest. */
static int64_t
due(const struct dial *d, int64_t now)
{
	int64_t at = now + TICK_US;

	if (d->state != DIAL_RELAYING)
		return sooner(at, d->step_until);
	at = sooner(at, d->look_until);
	at = sooner(at, d->active + egressd.idle_us);
	return sooner(at, d->begun + egressd.total_us);
}

void
dial_schedule(struct dial *d)
{
	int64_t now = egressd_now(), in = due(d, now) - now;
	struct timeval tv;

	if (in < 1000)
		in = 1000;
	tv = (struct timeval){in / SECOND, in % SECOND};
	if (event_add(&d->timer, &tv) == -1)
		fatalx("event_add");
}

/* What has run out. */
static enum reason
over(const struct dial *d, int64_t now)
{
	if (relay_inside_gone(d))
		return REASON_GONE;
	if (d->state == DIAL_RESOLVING && now >= d->step_until)
		return REASON_SILENT;
	if (d->state == DIAL_REFUSING && now >= d->step_until)
		return d->last;
	if (d->state != DIAL_RELAYING)
		return REASON_NONE;
	if (d->look_until != 0 && now >= d->look_until)
		return REASON_SLOW_START;
	if (now >= d->begun + egressd.total_us)
		return REASON_LONG;
	return now >= d->active + egressd.idle_us ? REASON_IDLE : REASON_NONE;
}

static void
on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct dial *d = arg;
	int64_t now = egressd_now();
	enum reason reason = over(d, now);

	(void)fd;
	(void)what;
	if (reason != REASON_NONE)
		dial_end(d, reason);
	else if (d->state == DIAL_CONNECTING && now >= d->step_until)
		connect_failed(d, REASON_TIMED_OUT);
	else
		dial_schedule(d);
}

void
dial_connected(struct dial *d)
{
	d->told = 1;
	tell(d->id, DIAL_OK, NULL, 0);
}

int
dial_opens(const struct dial *d, const struct egress_addr *a, int exact)
{
	const struct box *box = d->box;

	return egress_literal(egressd.list.text, egressd.list.len, a, d->port, exact) &&
	       (d->any || (box->nets_len > 0 &&
			      egress_literal(box->nets, box->nets_len, a, d->port, exact)));
}

/*
 * Whether it is public, or opened by lists. Behind the prefix of a translator, which the operator's
 * list must name, is a v4 address, for which the same holds.
 */
static int
may_be_reached(const struct dial *d, const struct egress_addr *a)
{
	static const uint8_t translator[12] = {0, 0x64, 0xff, 0x9b};
	struct egress_addr inner;

	if (egress_address_range(a) == NULL)
		return 1;
	if (a->family == 4 || memcmp(a->byte, translator, sizeof(translator)) != 0)
		return dial_opens(d, a, 0);
	egress_addr(&inner, a->byte + sizeof(translator), 4);
	return egress_literal(egressd.list.text, egressd.list.len, a, d->port, 0) &&
	       may_be_reached(d, &inner);
}

/* An address that may not be connected to is left out; -1 then, and it is remembered. */
static int
take_address(struct dial *d, const struct egress_addr *a)
{
	if (!may_be_reached(d, a)) {
		if (d->kind == NULL) {
			d->kind = egress_address_range(a)->reason;
			egress_addr_text(a, d->address);
		}
		return -1;
	}
	if (d->ntry < DIAL_TRIES)
		d->try[d->ntry++] = *a;
	return 0;
}

/* The i-th in turns, of those of version 4, which come first, and those of version 6. */
static const struct egress_addr *
in_turn(const struct resolved *r, size_t i)
{
	size_t four = 0, six, pairs;

	while (four < r->n && r->addr[four].family == 4)
		four++;
	six = r->n - four;
	pairs = four < six ? four : six;
	if (i < 2 * pairs)
		return &r->addr[i % 2 == 0 ? i / 2 : four + i / 2];
	return &r->addr[four > six ? i - pairs : i];
}

static void
on_resolved(void *arg, const struct resolved *r)
{
	struct dial *d = arg;
	struct box *box = d->box; /* which stays: it is not forgotten while a dial of it waits */
	size_t i;

	for (i = 0; i < r->n; i++)
		take_address(d, in_turn(r, i));
	if (r->reason != REASON_NONE)
		dial_end(d, r->reason);
	else if (d->ntry == 0)
		dial_end(d, REASON_NOT_PUBLIC);
	else
		connect_next(d);
	box->lookups--;
	look_up(box);
}

/* What no sandbox may have on this server, whatever managerd says of one. */
static int
forbidden(const struct dial *d)
{
	return d->any ? !egressd.proxied : !egressd.allowed && egressd.list.entries == 0;
}

/* What is decided before anything is asked of anybody. */
static enum reason
decide(struct dial *d, const char *name, size_t name_len, const char *list, size_t list_len)
{
	const char *why;

	d->any = list_len == 1 && list[0] == EGRESS_ANY[0];
	if (forbidden(d))
		return REASON_FORBIDDEN;
	if (!d->any && egressd.list.entries > 0)
		box_list(d->box, list, list_len);
	if (egress_host(name, name_len, &d->host, &why) == -1)
		return REASON_BAD_NAME;
	if (d->port == 0 || (!d->any && !egress_match(list, list_len, &d->host, d->port)))
		return REASON_NOT_LISTED;
	if (egressd.list.entries > 0 &&
	    !egress_match(egressd.list.text, egressd.list.len, &d->host, d->port))
		return REASON_NOT_SERVER;
	/* Where everything public is allowed there is nothing to compare. */
	if (d->any && egressd.list.entries == 0)
		d->look = LOOK_NOT;
	return REASON_NONE;
}

/* None has more than are left for others: so there is always room for one that has few. */
static enum reason
room_for(const struct box *box)
{
	unsigned left = egressd.dials_max - egressd.dials;

	return box->dials > left ? REASON_SERVER_FULL : REASON_NONE;
}

/* An entry in the books of its sandbox. NULL: it was refused. */
static struct dial *
dial_new(uint64_t id, const struct m_e_dial *p, int fd)
{
	struct box *box = box_of(p->sandbox);
	int64_t now = egressd_now();
	struct dial *d = NULL;
	enum reason reason;

	reason = box == NULL ? REASON_NO_MEMORY : box_admit(box, now);
	if (reason == REASON_NONE) {
		reason = room_for(box);
		if (reason == REASON_NONE && (d = calloc(1, sizeof(*d))) == NULL)
			reason = REASON_NO_MEMORY;
		if (d == NULL)
			box_release(box);
	}
	if (d == NULL) {
		refuse(id, reason, fd);
		return NULL;
	}
	egressd.dials++;
	*d = (struct dial){.box = box,
	    .id = id,
	    .port = p->port,
	    .look = look_for(p->port, p->how),
	    .inside = fd,
	    .outside = -1,
	    .begun = now,
	    .step_until = now + RESOLVE_US};
	LIST_INSERT_HEAD(&box->list, d, entry);
	return d;
}

void
dial_begin(uint64_t id, const struct m_e_dial *p, const char *name, const char *list,
    size_t list_len, int fd)
{
	struct dial *d = dial_new(id, p, fd);
	enum reason reason;

	if (d == NULL)
		return;
	reason = decide(d, name, p->name_len, list, list_len);
	if (reason != REASON_NONE) {
		dial_end(d, reason);
		return;
	}
	evtimer_assign(&d->timer, egressd.base, on_timer, d);
	dial_schedule(d);
	if (d->host.addr.family == 0) {
		TAILQ_INSERT_TAIL(&d->box->unasked, d, turn);
		d->waits = 1;
		look_up(d->box);
	} else if (take_address(d, &d->host.addr) == -1)
		dial_end(d, REASON_NOT_PUBLIC);
	else
		connect_next(d);
}
