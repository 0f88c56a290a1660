/* What keyd knows of the audit log, as it stands beside it: its key, and what it has signed last.
 */
#ifndef AGENT_SANDBOX_AUDIT_KEYD_H
#define AGENT_SANDBOX_AUDIT_KEYD_H

#include "agent-sandbox/audit_chain.h"

struct audit_keyd {
	int known; /* the rest is */
	uint64_t seq;
	char head[AUDIT_HASH_TEXT];
};
/* Of the data directory, where it may be read; folder NULL: nothing is known. */
void audit_keyd_read(struct audit_keyd *, const char *folder);
/* Keys that may sign: those given, else the one of the data directory. */
void audit_keyd_keys(struct chain *, const char *folder);

#endif
