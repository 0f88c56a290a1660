/* AGENT_SANDBOX_POOL: how many sandboxes of which image wait to be claimed. Pure functions over the
 * settings, so that all who need the sums have the same ones. */
#ifndef COMMON_POOL_LIST_H
#define COMMON_POOL_LIST_H

#include <stddef.h>
#include <stdint.h>

struct config;

#define POOL_MEMBERS_MAX 1000 /* in all */
#define POOL_IMAGES_MAX 64

struct pool_item {
	const char *image; /* not terminated; NULL: the default image */
	size_t len;
	int64_t count;
};

/* The next item of a list "IMAGE=N,N,…": 1; 0 at its end; -1: malformed. *list moves behind it. */
int pool_next(const char **list, struct pool_item *);
/* All members that are asked for; -1 when the list is malformed. */
int64_t pool_asked(const struct config *);
/* So many of them are kept: those that POOL_MEMORY_MB has room for. */
int64_t pool_kept(const struct config *);

#endif
