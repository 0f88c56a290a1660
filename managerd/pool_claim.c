/* Gives members of the pool away: which one fits, and if none does, why. */
#include <bsd/string.h>
#include <stdlib.h>
#include <string.h>

#include "common/ids.h"
#include "managerd/manager.h"
#include "managerd/policy.h"
#include "managerd/pool_member.h"
#include "managerd/session.h"

#define REFUSED_US 60000000 /* so long no update is tried after one that was refused */

static int64_t refused_us; /* no update before */

struct pool_image *
pool_image_find(const struct image_ref *ref)
{
	struct pool_image *image;

	TAILQ_FOREACH (image, &pool_images, entry)
		if (strcmp(image->ref.name, ref->name) == 0 &&
		    strcmp(image->ref.tag, ref->tag) == 0)
			return image;
	return NULL;
}

static int
limits_differ(const struct spec *a, const struct spec *b)
{
	return a->nano_cpus != b->nano_cpus || a->memory_mb != b->memory_mb ||
	       a->pids_limit != b->pids_limit;
}

/* Members know the names of the operator's list. Without one, those of a list would be missing. */
static int
hosts_lack(const struct egress_policy *policy, const struct spec *spec)
{
	return spec->egress != NULL && *spec->egress != '\0' && *policy->list == '\0';
}

/* The member, or NULL and why not. Less memory is not given by an update: /tmp and what else stays
 * in memory have their sizes already. */
static struct member *
member_fitting(const struct spec *spec, enum pool_miss *why)
{
	struct pool_image *image;
	struct image_ref ref;
	struct policy policy;
	struct member *m;

	*why = POOL_IMAGE;
	if (image_parse(spec->image, strlen(spec->image), &ref) == -1 ||
	    (image = pool_image_find(&ref)) == NULL)
		return NULL;
	policy_load(&policy, &mgr.child.config);
	*why = egress_bridged(&policy.egress, spec)        ? POOL_NETWORK
	       : hosts_lack(&policy.egress, spec)          ? POOL_EGRESS
	       : !spec->read_only                          ? POOL_ROOTFS
	       : spec->memory_mb < image->spec.memory_mb   ? POOL_MEMORY
	       : !limits_differ(spec, &image->spec)        ? POOL_EMPTY
	       : strstr(CFG_TEXT(DOCKER_RUNTIME), "runsc") ? POOL_LIMITS
	       : time_boot_us() < refused_us               ? POOL_UPDATE
							   : POOL_EMPTY;
	if (*why != POOL_EMPTY)
		return NULL;
	TAILQ_FOREACH (m, &image->members, entry)
		if (m->ready && m->bring.session->chan != NULL)
			return m;
	return NULL;
}

int
pool_claim(const struct spec *spec, struct pool_claim *claim)
{
	struct member *m;
	enum pool_miss why;

	if (TAILQ_EMPTY(&pool_images) || pool_draining)
		return 0;
	if ((m = member_fitting(spec, &why)) == NULL) {
		pool_count_miss(spec, why);
		pool_fill_after(POOL_PAUSE_US);
		return 0;
	}
	memset(claim, 0, sizeof(*claim));
	claim->pool = m->bring.pool;
	claim->session = m->bring.session;
	strlcpy(claim->container, m->bring.container, sizeof(claim->container));
	claim->update = limits_differ(spec, &m->image->spec);
	TAILQ_REMOVE(&m->image->members, m, entry);
	free(m);
	pool_count_hit();
	pool_fill_after(POOL_PAUSE_US);
	return 1;
}

void
pool_missed(const struct spec *spec, enum pool_miss why)
{
	if (why == POOL_UPDATE)
		refused_us = time_boot_us() + REFUSED_US;
	pool_count_miss(spec, why);
}
