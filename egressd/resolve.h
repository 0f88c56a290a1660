/* Names to addresses: c-ares on our loop, asking only the name servers that the parent told us. */
#ifndef EGRESSD_RESOLVE_H
#define EGRESSD_RESOLVE_H

#include <stddef.h>

#include "common/egress.h"
#include "egressd/reason.h"

#define RESOLVE_ADDRESSES 32 /* of one answer; more are left out */

struct event_base;
struct lookup;

struct resolved {
	enum reason reason; /* REASON_NONE: n > 0 addresses, of version 4 first */
	size_t n;
	struct egress_addr addr[RESOLVE_ADDRESSES];
};
typedef void (*resolve_done)(void *arg, const struct resolved *);

/* Before the confinement: what c-ares reads, it reads now. */
void resolve_init(void);
void resolve_start(struct event_base *);
/* "ADDRESS[#PORT],…", replacing those before; what waits for an answer is asked again. */
void resolve_servers(const char *list);

/*
 * Asks for A and AAAA. done is called once with arg, perhaps before this returns. *lookup is set
 * until then. How long it may take is the caller's to limit.
 */
void resolve_name(const char *name, struct lookup **lookup, resolve_done, void *arg);
/* done is not called any more; over is, when c-ares, which cannot stop one query, is through. */
void resolve_abandon(struct lookup *, void (*over)(void *), void *arg);

#endif
