/* Connections by the address that they come from (places.h). */
#include <stdlib.h>
#include <string.h>

#include <bsd/sys/tree.h>

#include "apid/gate.h"
#include "apid/places.h"
#include "common/log.h"

TAILQ_HEAD(conns_of, conn);

struct origin {
	RB_ENTRY(origin) by_key, by_size;
	uint8_t key[16];
	int trusted;
	size_t count;
	struct conns_of conns; /* in the order in which they came */
};

/* A client has a whole /64, or one IPv4 address. */
static void
key_of(uint8_t key[16], const struct peer_addr *p)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	memcpy(key, p->addr, 16);
	if (memcmp(key, mapped, sizeof(mapped)) != 0)
		memset(key + 8, 0, 8);
}

static int
compare_keys(struct origin *a, struct origin *b)
{
	return memcmp(a->key, b->key, sizeof(a->key));
}

/* The largest one is the first to give up a place. */
static int
compare_sizes(struct origin *a, struct origin *b)
{
	if (a->trusted != b->trusted)
		return a->trusted ? -1 : 1;
	if (a->count != b->count)
		return a->count < b->count ? -1 : 1;
	return compare_keys(a, b);
}

RB_HEAD(keys, origin);
RB_HEAD(sizes, origin);
#define PRIVATE static __attribute__((unused))
RB_GENERATE_INTERNAL(keys, origin, by_key, compare_keys, PRIVATE)
RB_GENERATE_INTERNAL(sizes, origin, by_size, compare_sizes, PRIVATE)

static struct keys by_key = RB_INITIALIZER(&by_key);
static struct sizes by_size = RB_INITIALIZER(&by_size);
static size_t most, taken;
static const struct peer_trust *trust;

void
places_init(size_t per_address, const struct peer_trust *t)
{
	most = per_address;
	trust = t;
}

size_t
places_taken(void)
{
	return taken;
}

static struct origin *
find_origin(const struct peer_addr *p)
{
	struct origin like, *o;

	key_of(like.key, p);
	if ((o = RB_FIND(keys, &by_key, &like)) != NULL)
		return o;
	if ((o = calloc(1, sizeof(*o))) == NULL)
		fatal("calloc");
	memcpy(o->key, like.key, sizeof(o->key));
	o->trusted = peer_is_trusted(trust, p);
	TAILQ_INIT(&o->conns);
	RB_INSERT(keys, &by_key, o);
	RB_INSERT(sizes, &by_size, o);
	return o;
}

static void
resize(struct origin *o, size_t count)
{
	RB_REMOVE(sizes, &by_size, o);
	o->count = count;
	RB_INSERT(sizes, &by_size, o);
}

void
places_give(struct conn *c)
{
	struct origin *o = c->origin;

	if (o == NULL)
		return;
	c->origin = NULL;
	taken--;
	TAILQ_REMOVE(&o->conns, c, of_origin);
	resize(o, o->count - 1);
	if (o->count > 0)
		return;
	RB_REMOVE(keys, &by_key, o);
	RB_REMOVE(sizes, &by_size, o);
	free(o);
}

int
places_take(struct conn *c)
{
	struct origin *o;

	places_give(c);
	o = find_origin(&c->peer);
	if (most > 0 && o->count >= most && !o->trusted)
		return -1;
	c->origin = o;
	taken++;
	TAILQ_INSERT_TAIL(&o->conns, c, of_origin);
	resize(o, o->count + 1);
	return 0;
}

struct conn *
places_victim(const struct conn *newcomer, int (*may_go)(const struct conn *))
{
	struct origin *o;
	struct conn *c;

	RB_FOREACH_REVERSE(o, sizes, &by_size)
	{
		TAILQ_FOREACH (c, &o->conns, of_origin) {
			if (c != newcomer && may_go(c))
				return c;
		}
	}
	return NULL;
}
