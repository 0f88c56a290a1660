/*
 * sessiond: one process per sandbox, and the only place outside a sandbox that parses bytes from
 * inside it. It speaks the guest protocol, copies between guest channels and data sockets, and
 * packs and unpacks snapshots.
 */
#include <malloc.h>

#include <event2/event.h>

#include "common/chan_event.h"
#include "common/child.h"
#include "common/log.h"
#include "proto/parent.h"
#include "sessiond/sandbox.h"
#include "sessiond/session.h"

#define FSIZE_SLACK \
	(16 * 1024 * 1024)      /* zstd's frames around bytes that do not compress, beside 1/256 */
#define MALLOC_KEEP (64 * 1024) /* larger pieces go back to the kernel when they are freed */

int
main(void)
{
	struct confine confine = confine_sessiond;
	static struct session session;
	static struct child child;
	struct event_base *base;
	struct chan *parent;
	uint64_t max;

	child_setup(&child, "sessiond", 1);
	mallopt(M_MMAP_THRESHOLD, MALLOC_KEEP);
	mallopt(M_TRIM_THRESHOLD, MALLOC_KEEP);
	if ((base = event_base_new()) == NULL)
		fatalx("event base");
	max = (uint64_t)child.config.num[CFG_MAX_SNAPSHOT_BYTES];
	confine.fsize_max = max + max / 256 + FSIZE_SLACK;
	child_confine(&child, &confine);

	session_init(&session, base);
	parent = child_run(&child, base, &parent_child_proto, NULL);
	session.manager = chan_event_new(base, FD_PEER, &managerd_sessiond_proto, SESSIOND,
	    MANAGERD, manager_message, manager_gone, &session);
	child_ready(&child, parent);
	if (event_base_dispatch(base) == -1)
		fatalx("event loop");
	return 0;
}
