/* What egressd keeps of each sandbox: how much of its limits it has used, and its connections. */
#ifndef EGRESSD_BOX_H
#define EGRESSD_BOX_H

#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "egressd/reason.h"

struct dial;

struct box {
	LIST_ENTRY(box) entry;
	uint64_t sandbox;
	unsigned dials; /* at once, and what still waits for an answer of the resolver */
	int64_t bytes;  /* both ways, since it began */
	int64_t tokens; /* new connections that it may make now, in millionths */
	int64_t filled; /* when tokens was right */
	char *nets;     /* the addresses and CIDRs of its list, as in a list */
	size_t nets_len;
	int forgotten; /* goes with the last of its dials */
	LIST_HEAD(, dial) list;
	/* Names that are asked for at once: name servers are everybody's, and take so many. */
	unsigned lookups;
	int asking;                 /* look_up() is at work on it */
	TAILQ_HEAD(, dial) unasked; /* dials whose names are not asked for yet, oldest first */
};

struct box_limits {
	unsigned dials;
	int64_t rate; /* a second, and at once after a pause */
	int64_t bytes;
};
void box_limits(const struct box_limits *);

/* The sandbox's, made if it is new; NULL: out of memory. */
struct box *box_of(uint64_t sandbox);
/* The same, but NULL when there is none. */
struct box *box_find(uint64_t sandbox);
/* One more connection: REASON_NONE, or why not. now in microseconds. */
enum reason box_admit(struct box *, int64_t now);
/* Undoes box_admit() when the connection, and its lookup, are over. */
void box_release(struct box *);
/* What its list is; with it, of the operator's, what it may reach that is not public. */
void box_list(struct box *, const char *list, size_t len);
/* How many more bytes it may move. */
int64_t box_left(const struct box *);
/* The sandbox is gone: counters go, once its dials have. */
void box_forget(struct box *);

#endif
