/* Snapshots as a client sees them. Their making is a job (jobs.h). */
#ifndef MANAGERD_SNAPSHOT_H
#define MANAGERD_SNAPSHOT_H

#include "managerd/snap.h"

/* Removes record and file; who has the file open keeps it. -1 with errno. */
int snapshot_delete(struct snap *);

#endif
