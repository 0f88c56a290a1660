/* The operator's bounds on what a client may ask for. Pure. */
#ifndef MANAGERD_POLICY_H
#define MANAGERD_POLICY_H

#include "managerd/egress.h"
#include "managerd/spec.h"
#include "proto/apid_managerd.h"

struct policy {
	const char *default_image;
	const char *images; /* comma-separated globs */
	struct egress_policy egress;
	int64_t default_ttl_s, max_ttl_s;
	int64_t default_nano_cpus, max_nano_cpus;
	int64_t default_memory_mb, max_memory_mb;
	int64_t default_pids, max_pids;
};

/* The policy of this start's configuration. */
struct config;
void policy_load(struct policy *, const struct config *);
/* 0, or the HTTP status of the refusal. */
int policy_image(const struct policy *, const char *image);
/*
 * What a create or a fork gets: what was asked for, else what the snapshot's sandbox had (from, or
 * NULL), else the default. egress: the entries of a list that was asked for (CREATE). Sets image,
 * limits, network, list and root of spec (env and labels are left) and *ttl_s. Returns 0, or an
 * HTTP status with its text; spec then holds nothing new.
 */
int policy_resolve(const struct policy *, const struct m_create *, const char *image,
    const struct strings *egress, const struct spec *from, struct spec *spec, int64_t *ttl_s,
    char *text, size_t size);
/* 0, or an HTTP status with its text. */
int policy_ttl(const struct policy *, int64_t ttl_s, char *text, size_t size);

#endif
