/* What the parts of apid share: there is one of each in the process. */
#ifndef APID_APID_H
#define APID_APID_H

#include "apid/browser.h"
#include "apid/peer.h"
#include "proto/config.h"

struct chan;
struct evbuffer;
struct event_base;

struct confine;
extern const struct confine confine_apid;

struct apid {
	struct event_base *base;
	struct chan *managerd;
	struct chan *parent;
	const struct config *config;
	struct browser_policy browser;
	struct browser_policy metrics_browser; /* of AGENT_SANDBOX_METRICS_LISTEN */
	struct peer_trust trust;
	size_t conns_max;
	uint32_t nofile; /* descriptors: up to three for each connection, and some */
};

extern struct apid apid;

/* Never NULL. */
struct evbuffer *buffer_new(void);

#endif
