/* Decides what a client may ask for: maxima, image globs, network. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "managerd/policy.h"
#include "proto/config.h"
#include "common/image_ref.h"

#define NANO_CPUS_MIN 10000000 /* the engine has no less */

void
policy_load(struct policy *p, const struct config *c)
{
	p->default_image = c->str[CFG_DEFAULT_IMAGE];
	p->images = c->str[CFG_ALLOWED_IMAGES];
	p->egress.allow_network = c->num[CFG_ALLOW_NETWORK] != 0;
	p->egress.proxied = strcmp(c->str[CFG_NETWORK_MODE], "proxy") == 0;
	p->egress.list = c->str[CFG_EGRESS_ALLOWLIST];
	p->default_ttl_s = c->num[CFG_DEFAULT_TIMEOUT_SECONDS];
	p->max_ttl_s = c->num[CFG_MAX_TIMEOUT_SECONDS];
	p->default_nano_cpus = c->num[CFG_DEFAULT_CPUS];
	p->max_nano_cpus = c->num[CFG_MAX_CPUS];
	p->default_memory_mb = c->num[CFG_DEFAULT_MEMORY_MB];
	p->max_memory_mb = c->num[CFG_MAX_MEMORY_MB];
	p->default_pids = c->num[CFG_DEFAULT_PIDS_LIMIT];
	p->max_pids = c->num[CFG_MAX_PIDS_LIMIT];
}

/* 0; 400: it cannot be the name of an image; 403: the operator did not allow it. */
int
policy_image(const struct policy *p, const char *image)
{
	struct image_ref ref;

	if (image_parse(image, strlen(image), &ref) == -1)
		return 400;
	return image_allowed(p->images, image, &ref) ? 0 : 403;
}

int
policy_ttl(const struct policy *p, int64_t ttl_s, char *text, size_t size)
{
	if (ttl_s >= 1 && ttl_s <= p->max_ttl_s)
		return 0;
	snprintf(text, size, "timeout_seconds: must be from 1 to %lld on this server",
	    (long long)p->max_ttl_s);
	return 400;
}

/* One limit: what was asked for (0: nothing), else the inherited one, else the default. */
static int
limit(int64_t asked, int64_t inherited, int64_t def, int64_t min, int64_t max, int64_t *out)
{
	int64_t v = asked != 0 ? asked : inherited != 0 ? inherited : def;

	if (v < min || v > max)
		return -1;
	*out = v;
	return 0;
}

static int
limits_resolve(const struct policy *p, const struct m_create *ask, const struct spec *from,
    struct spec *spec, char *text, size_t size)
{
	static const struct spec nothing;

	if (from == NULL)
		from = &nothing;
	if (limit(ask->nano_cpus, from->nano_cpus, p->default_nano_cpus, 1, p->max_nano_cpus,
		&spec->nano_cpus) == -1) {
		snprintf(text, size, "cpus: must be above 0 and at most %g on this server",
		    p->max_nano_cpus / 1e9);
		return 400;
	}
	if (spec->nano_cpus < NANO_CPUS_MIN)
		spec->nano_cpus = NANO_CPUS_MIN;
	if (limit(ask->memory_mb, from->memory_mb, p->default_memory_mb, 16, p->max_memory_mb,
		&spec->memory_mb) == -1) {
		snprintf(text, size, "memory_mb: must be from 16 to %lld on this server",
		    (long long)p->max_memory_mb);
		return 400;
	}
	if (limit(ask->pids_limit, from->pids_limit, p->default_pids, 8, p->max_pids,
		&spec->pids_limit) == -1) {
		snprintf(text, size, "pids_limit: must be from 8 to %lld on this server",
		    (long long)p->max_pids);
		return 400;
	}
	return 0;
}

/* Network and list: what was asked for, else what was inherited, else the default. */
static int
network_resolve(const struct policy *p, const struct m_create *ask, const struct strings *egress,
    const struct spec *from, struct spec *spec, char *text, size_t size)
{
	spec->network = ask->network != NOT_GIVEN ? ask->network : from != NULL ? from->network : 0;
	if (spec->network && !p->egress.allow_network) {
		snprintf(text, size, "network: not allowed on this server");
		return 403;
	}
	if (from != NULL)
		return egress_inherit(
		    &p->egress, from->egress, spec->network, &spec->egress, text, size);
	return egress_resolve(
	    &p->egress, ask->egress, egress, spec->network, &spec->egress, text, size);
}

int
policy_resolve(const struct policy *p, const struct m_create *ask, const char *image,
    const struct strings *egress, const struct spec *from, struct spec *spec, int64_t *ttl_s,
    char *text, size_t size)
{
	struct spec got = {0};
	int64_t ttl = ask->ttl_s != 0 ? ask->ttl_s : p->default_ttl_s;
	int status;

	if (image == NULL || *image == '\0')
		image = from != NULL ? from->image : p->default_image;
	if ((status = policy_ttl(p, ttl, text, size)) != 0 ||
	    (status = limits_resolve(p, ask, from, &got, text, size)) != 0)
		return status;
	if ((status = policy_image(p, image)) != 0) {
		snprintf(text, size,
		    status == 400 ? "image %s is not a valid image name"
				  : "image %s is not allowed on this server",
		    image);
		return status;
	}
	got.read_only = ask->read_only != NOT_GIVEN ? ask->read_only
			: from != NULL              ? from->read_only
						    : 1;
	if ((status = network_resolve(p, ask, egress, from, &got, text, size)) != 0)
		return status;
	spec->nano_cpus = got.nano_cpus;
	spec->memory_mb = got.memory_mb;
	spec->pids_limit = got.pids_limit;
	spec->network = got.network;
	spec->egress = got.egress;
	spec->read_only = got.read_only;
	if ((spec->image = strdup(image)) == NULL)
		fatal("policy");
	*ttl_s = ttl;
	return 0;
}
