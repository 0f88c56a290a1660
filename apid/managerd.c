/* Pairs managerd's answers with requests (managerd.h). Ids are a slot and a generation: an unknown
 * one is a breach. */
#include <stdlib.h>
#include <string.h>

#include "apid/apid.h"
#include "apid/managerd.h"
#include "common/chan_event.h"
#include "common/log.h"

#define CALLS_MAX 4096

struct call {
	call_cb cb; /* NULL: nobody waits */
	void *arg;
	uint32_t generation;
	uint32_t next_free;
	uint8_t kind; /* enum call_kind */
	uint8_t open;
};

static struct call *calls;
static void (*when_gone)(void);
static size_t open_calls;
static uint32_t ncalls, first_free = UINT32_MAX;

static uint32_t
take_slot(void)
{
	struct call *more;
	uint32_t slot = first_free;

	if (slot != UINT32_MAX) {
		first_free = calls[slot].next_free;
		return slot;
	}
	if (ncalls % 64 == 0) {
		if ((more = reallocarray(calls, ncalls + 64, sizeof(*calls))) == NULL)
			fatal("reallocarray");
		calls = more;
	}
	memset(&calls[ncalls], 0, sizeof(calls[ncalls]));
	return ncalls++;
}

uint64_t
call_new(enum call_kind kind, call_cb cb, void *arg)
{
	uint32_t slot;
	struct call *c;

	if (chan_queued(apid.managerd) > CHAN_HIGH ||
	    (first_free == UINT32_MAX && ncalls >= CALLS_MAX))
		return 0;
	slot = take_slot();
	c = &calls[slot];
	c->cb = cb;
	c->arg = arg;
	c->kind = (uint8_t)kind;
	c->open = 1;
	open_calls++;
	c->generation++;
	return (uint64_t)c->generation << 32 | (slot + 1);
}

size_t
calls_open(void)
{
	return open_calls;
}

static struct call *
find(uint64_t id)
{
	uint32_t slot = (uint32_t)id - 1;

	if (slot >= ncalls || !calls[slot].open || calls[slot].generation != id >> 32)
		return NULL;
	return &calls[slot];
}

void
call_forget(uint64_t id)
{
	struct call *c = find(id);

	if (c != NULL)
		c->cb = NULL;
}

static void
give_back(struct call *c, uint64_t id)
{
	c->open = 0;
	open_calls--;
	c->next_free = first_free;
	first_free = (uint32_t)id - 1;
}

void
call_cancel(uint64_t id)
{
	struct call *c = find(id);

	if (c != NULL)
		give_back(c, id);
}

static int
fits(enum call_kind kind, uint32_t type, int *last)
{
	*last = 1;
	switch (type) {
	case MSG_REPLY:
		return 1;
	case MSG_SANDBOX:
		*last = kind != CALL_SANDBOXES;
		return kind == CALL_SANDBOX || kind == CALL_SANDBOXES;
	case MSG_SNAPSHOT:
		*last = kind != CALL_SNAPSHOTS;
		return kind == CALL_SNAPSHOT || kind == CALL_SNAPSHOTS;
	case MSG_PAGE_END:
		return kind == CALL_SANDBOXES || kind == CALL_SNAPSHOTS;
	case MSG_HEALTH:
		return kind == CALL_HEALTH;
	case MSG_METRIC:
		*last = 0;
		return kind == CALL_METRICS;
	default:
		return 0;
	}
}

static void
on_message(struct chan *chan, struct msg *m)
{
	struct answer a = {m->type, m->payload, m->tail, m->tail_len};
	struct call *c = find(m->id);
	call_cb cb;
	void *arg;
	int last;

	(void)chan;
	if (c == NULL)
		fatalx("managerd answers a request that was not sent");
	if (!fits(c->kind, m->type, &last))
		fatalx("managerd answers with the wrong kind of message");
	cb = c->cb;
	arg = c->arg;
	if (last)
		give_back(c, m->id);
	if (cb != NULL)
		cb(arg, &a);
}

static void
on_gone(struct chan *chan)
{
	(void)chan;
	/* The parent says why. */
	log_debug("managerd is gone, so am I");
	when_gone();
}

void
managerd_init(struct event_base *base, int fd, void (*gone)(void))
{
	when_gone = gone;
	apid.managerd = chan_event_new(
	    base, fd, &apid_managerd_proto, APID, MANAGERD, on_message, on_gone, NULL);
}
