/* Bytes that are kept for requests, by the key that asks (hold.h). */
#include <stdlib.h>
#include <string.h>

#include <bsd/sys/queue.h>

#include "apid/hold.h"
#include "common/log.h"

#define HELD_MAX (256 * 1024 * 1024) /* of all together */
#define BUCKETS 256

struct holder {
	LIST_ENTRY(holder) entry;
	uint8_t key[32];
	size_t held, requests;
};

static LIST_HEAD(, holder) holders[BUCKETS];
static size_t all;

static struct holder *
holder_of(const uint8_t key[32])
{
	struct holder *h;

	LIST_FOREACH (h, &holders[key[0]], entry)
		if (memcmp(h->key, key, sizeof(h->key)) == 0)
			return h;
	if ((h = calloc(1, sizeof(*h))) == NULL)
		fatal("calloc");
	memcpy(h->key, key, sizeof(h->key));
	LIST_INSERT_HEAD(&holders[key[0]], h, entry);
	return h;
}

int
hold_more(struct holder **h, const uint8_t key[32], size_t n)
{
	if (*h == NULL) {
		*h = holder_of(key);
		(*h)->requests++;
	}
	(*h)->held += n;
	all += n;
	return all > HELD_MAX || (*h)->held > HELD_MAX - all ? -1 : 0;
}

void
hold_less(struct holder *h, size_t n)
{
	h->held -= n;
	all -= n;
}

void
hold_end(struct holder **h, size_t n)
{
	if (*h == NULL)
		return;
	hold_less(*h, n);
	if (--(*h)->requests == 0) {
		LIST_REMOVE(*h, entry);
		free(*h);
	}
	*h = NULL;
}
