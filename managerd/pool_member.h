/* What the files of the pool share: its images and their members. */
#ifndef MANAGERD_POOL_MEMBER_H
#define MANAGERD_POOL_MEMBER_H

#include <bsd/sys/queue.h>

#include "common/image_ref.h"
#include "managerd/bring.h"
#include "managerd/pool.h"
#include "proto/job.h"

#define POOL_PAUSE_US 50000 /* from a claim, and while clients make sandboxes themselves */

struct member {
	struct bring bring; /* first: bring's callbacks get this */
	TAILQ_ENTRY(member) entry;
	struct pool_image *image;
	int ready;
};

struct pool_image {
	TAILQ_ENTRY(pool_image) entry;
	struct spec spec; /* of its members */
	struct image_ref ref;
	size_t size;                  /* so many are wanted */
	TAILQ_HEAD(, member) members; /* oldest first */
	char prepared[72];            /* of which they should be made; "": not known yet */
	int checking;
	int64_t check_us;          /* CLOCK_BOOTTIME: when to look again at the tag */
	int64_t wait_us, after_us; /* of the last failure, and when the next try may come */
	int64_t pull_us;           /* not pulled again before */
	char why[TEXT_MAX];        /* of the last failure; "": none */
};

TAILQ_HEAD(pool_images, pool_image);
extern struct pool_images pool_images;
extern int pool_draining;

struct pool_image *pool_image_find(const struct image_ref *);
/* Looks in a while whether members are missing. */
void pool_fill_after(int64_t us);

#endif
