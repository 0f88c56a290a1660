/* What sandboxes may reach: the operator's list, and each one's own within it. */
#ifndef MANAGERD_EGRESS_H
#define MANAGERD_EGRESS_H

#include "managerd/spec.h"
#include "proto/dial.h"

/* The operator's part of it. */
struct egress_policy {
	int allow_network;
	int proxied;      /* network: true means every public address, by egressd */
	const char *list; /* canonical, "" none: the most that any sandbox may reach */
};

/*
 * From what was asked for: given says whether a list was, perhaps an empty one, and network whether
 * a way out without a list is. Sets *list: canonical, "" for no way out, NULL where no list counts;
 * free() it. Returns 0, or an HTTP status with its text.
 */
int egress_resolve(const struct egress_policy *, int given, const struct strings *entries,
    int network, char **list, char *text, size_t size);
/* The same for one that was in force before, of a sandbox that was snapshotted. */
int egress_inherit(const struct egress_policy *, const char *before, int network, char **list,
    char *text, size_t size);
/* What egressd is to go by: the list, EGRESS_ANY, or NULL when there is no way out that it serves.
 */
const char *egress_rule(const struct egress_policy *, const struct spec *);
/* Whether its container is on the bridge. */
int egress_bridged(const struct egress_policy *, const struct spec *);
/* The exact names of a list, joined by '\n', for the file of hosts inside. Returns how many bytes.
 */
size_t egress_names(const char *list, char out[EGRESS_TEXT_MAX]);
/* AGENT_SANDBOX_EGRESS_ALLOWLIST, which the parent has checked, in canonical form; to be freed. */
char *egress_server_list(const char *setting);

#endif
