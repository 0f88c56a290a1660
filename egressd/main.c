/*
 * egressd makes the connections that sandboxes may have to the outside, and nothing else: it
 * decides by the operator's and the sandbox's list, resolves names itself, connects to exactly the
 * address that it checked, and copies bytes.
 */
#include "egressd/egressd.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <event2/event.h>

#include "common/chan_event.h"
#include "common/items.h"
#include "common/log.h"
#include "egressd/box.h"
#include "egressd/own.h"
#include "egressd/resolve.h"
#include "proto/managerd_egressd.h"
#include "proto/parent.h"

#define SECOND INT64_C(1000000)
#define FDS_KEPT 96 /* channels, the loop, the resolver, what is about to be refused */
#define FDS_DIAL 2

struct egressd egressd;

int64_t
egressd_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * SECOND + ts.tv_nsec / 1000;
}

static void
parent_message(struct chan *c, struct msg *m)
{
	(void)c;
	if (m->type != MSG_P_RESOLV)
		fatalx("the parent sent a setup message again");
	if (memchr(m->tail, '\0', m->tail_len) != NULL)
		fatalx("parent: name servers with a NUL");
	resolve_servers(m->tail);
}

/* The operator's list, which the parent has checked. */
static void
list_load(const char *text)
{
	const char *item, *why;
	size_t n;

	while ((item = items_next(&text, &n)) != NULL)
		if (egress_list_add(&egressd.list, item, n, &why) == -1)
			fatal_config("AGENT_SANDBOX_EGRESS_ALLOWLIST: %.*s: %s", (int)n, item, why);
}

static void
limits_load(void)
{
	const int64_t *num = egressd.child.config.num;
	struct box_limits limits = {.dials = (unsigned)num[CFG_EGRESS_CONNECTIONS],
	    .rate = num[CFG_EGRESS_RATE],
	    .bytes = num[CFG_EGRESS_BYTES]};
	struct rlimit fds;

	egressd.allowed = num[CFG_ALLOW_NETWORK] != 0;
	egressd.proxied =
	    egressd.allowed && strcmp(egressd.child.config.str[CFG_NETWORK_MODE], "proxy") == 0;
	box_limits(&limits);
	egressd.idle_us = num[CFG_EGRESS_IDLE_SECONDS] * SECOND;
	egressd.total_us = num[CFG_EGRESS_SECONDS] * SECOND;
	/* Above it a message with a descriptor could not be received, which would be fatal. */
	if (getrlimit(RLIMIT_NOFILE, &fds) == -1 || fds.rlim_cur < 2 * FDS_KEPT)
		fatal_config("a limit of fewer than %d descriptors is too low", 2 * FDS_KEPT);
	egressd.dials_max = (unsigned)((fds.rlim_cur - FDS_KEPT) / FDS_DIAL);
}

int
main(void)
{
	struct chan *parent;

	child_setup(&egressd.child, "egressd", 1);
	list_load(egressd.child.config.str[CFG_EGRESS_ALLOWLIST]);
	resolve_init();
	own_start();
	if ((egressd.base = event_base_new()) == NULL)
		fatalx("event base");
	child_confine(&egressd.child, &egressd_confine);

	limits_load();
	resolve_start(egressd.base);
	parent = child_run(&egressd.child, egressd.base, &parent_egressd_proto, parent_message);
	egressd.manager = chan_event_new(egressd.base, FD_PEER, &managerd_egressd_proto, EGRESSD,
	    MANAGERD, manager_message, manager_gone, NULL);
	chan_event_hold(egressd.manager);
	child_ready(&egressd.child, parent);
	if (event_base_dispatch(egressd.base) == -1)
		fatalx("event loop");
	return 0;
}
