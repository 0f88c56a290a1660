/* What keeps web pages of others away from a server on this machine (cross-site requests, DNS
 * rebinding). Pure. */
#ifndef APID_BROWSER_H
#define APID_BROWSER_H

#include "apid/head.h"

struct browser_policy {
	int loopback;        /* we listen on a loopback address: Host must be one of ours */
	const char *hosts;   /* comma-separated Host values accepted beside localhost; may be "" */
	const char *origins; /* comma-separated origins of pages that are let in; may be "" */
};

/* NULL, or why the request is refused with 403. */
const char *browser_check(const struct head *, const struct browser_policy *);
/* Whether this is exactly one of the origins that the configuration lets in. */
int browser_invites(const struct browser_policy *, struct slice origin);
/* Whether a listening address is of this machine only. */
int browser_is_loopback(const char *address);

#endif
