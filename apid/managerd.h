/* The channel to managerd: what was asked and is not answered yet. */
#ifndef APID_MANAGERD_H
#define APID_MANAGERD_H

#include "proto/apid_managerd.h"

struct event_base;

/* The server itself does not answer. */
#define SILENT_TEXT "the server does not answer itself: is its data directory's disk stuck?"

/* What may come back. REPLY always may. */
enum call_kind {
	CALL_REPLY,
	CALL_SANDBOX,
	CALL_SNAPSHOT,
	CALL_SANDBOXES, /* SANDBOX*, PAGE_END */
	CALL_SNAPSHOTS, /* SNAPSHOT*, PAGE_END */
	CALL_HEALTH,
	CALL_METRICS, /* METRIC*, REPLY */
};

struct answer {
	uint32_t type; /* MSG_REPLY, MSG_SANDBOX … */
	const void *payload;
	const char *tail; /* a NUL stands behind it */
	size_t tail_len;
};

typedef void (*call_cb)(void *arg, const struct answer *);

/* gone() is called when managerd has gone; fatal when it breaks the rules. */
void managerd_init(struct event_base *, int fd, void (*gone)(void));
/* An id to send a request with; cb gets its answer(s), the last one ends it. 0: overloaded, refuse
 * with 503. */
uint64_t call_new(enum call_kind, call_cb, void *arg);
/* What this id was for is not asked after all. */
void call_cancel(uint64_t id);
/* How many are not answered. */
size_t calls_open(void);
/* Nobody wants the answer any more. */
void call_forget(uint64_t id);

#endif
