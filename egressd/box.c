/* The limits of each sandbox; see box.h. */
#include "egressd/box.h"

#include <stdlib.h>
#include <string.h>

#include "common/egress.h"

#define BUCKETS 1024
#define TOKEN 1000000 /* a connection; so that a microsecond of rate 1 is 1 */

static LIST_HEAD(, box) boxes[BUCKETS];
static struct box_limits limits;

void
box_limits(const struct box_limits *l)
{
	limits = *l;
}

/* Ids are random. */
static size_t
bucket(uint64_t sandbox)
{
	return (size_t)(sandbox % BUCKETS);
}

struct box *
box_find(uint64_t sandbox)
{
	struct box *b;

	LIST_FOREACH (b, &boxes[bucket(sandbox)], entry)
		if (b->sandbox == sandbox && !b->forgotten)
			return b;
	return NULL;
}

struct box *
box_of(uint64_t sandbox)
{
	struct box *b = box_find(sandbox);

	if (b != NULL || (b = calloc(1, sizeof(*b))) == NULL)
		return b;
	b->sandbox = sandbox;
	b->tokens = limits.rate * TOKEN;
	LIST_INIT(&b->list);
	TAILQ_INIT(&b->unasked);
	LIST_INSERT_HEAD(&boxes[bucket(sandbox)], b, entry);
	return b;
}

static void
refill(struct box *b, int64_t now)
{
	int64_t full = limits.rate * TOKEN, passed = now - b->filled;

	/* In a second it is full, whatever it was. */
	if (passed >= TOKEN || b->tokens + passed * limits.rate > full)
		b->tokens = full;
	else
		b->tokens += passed * limits.rate;
	b->filled = now;
}

enum reason
box_admit(struct box *b, int64_t now)
{
	refill(b, now);
	if (b->tokens < TOKEN)
		return REASON_TOO_FAST;
	b->tokens -= TOKEN;
	if (b->dials >= limits.dials)
		return REASON_TOO_MANY;
	if (b->bytes >= limits.bytes)
		return REASON_BYTES;
	b->dials++;
	return REASON_NONE;
}

static void
free_if_over(struct box *b)
{
	if (!b->forgotten || b->dials > 0)
		return;
	LIST_REMOVE(b, entry);
	free(b->nets);
	free(b);
}

void
box_release(struct box *b)
{
	b->dials--;
	free_if_over(b);
}

void
box_list(struct box *b, const char *list, size_t len)
{
	static char nets[EGRESS_TEXT_MAX];
	struct egress_walk walk = {list, len, 0};
	struct egress_entry e;
	size_t n = 0, at, line;

	while (at = walk.at, egress_next(&walk, &e) == 1) {
		line = walk.at - 1 - at;
		if (e.kind != EGRESS_NET)
			continue;
		if (n > 0)
			nets[n++] = '\n';
		memcpy(nets + n, list + at, line);
		n += line;
	}
	if (n == b->nets_len && (n == 0 || memcmp(b->nets, nets, n) == 0))
		return;
	free(b->nets);
	b->nets = malloc(n);
	b->nets_len = b->nets == NULL ? 0 : n; /* without memory it may reach less */
	if (b->nets != NULL)
		memcpy(b->nets, nets, n);
}

int64_t
box_left(const struct box *b)
{
	return limits.bytes - b->bytes;
}

void
box_forget(struct box *b)
{
	b->forgotten = 1;
	free_if_over(b);
}
