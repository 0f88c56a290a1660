/* What managerd is doing, for the log: at SIGUSR1. */
#include "common/chan.h"
#include "common/ids.h"
#include "common/log.h"
#include "managerd/audit.h"
#include "managerd/box.h"
#include "managerd/engine.h"
#include "managerd/jobs.h"
#include "managerd/manager.h"
#include "managerd/session.h"
#include "managerd/snap.h"

struct doing {
	size_t in[BOX_STATES], waiting, running;
	const struct job *oldest;
};

static void
look_at(struct box *box, void *arg)
{
	struct doing *d = arg;
	const struct job *job;

	d->in[box->state]++;
	d->waiting += box->nwaiting;
	TAILQ_FOREACH (job, &box->running, entry) {
		d->running++;
		if (d->oldest == NULL || job->rq.began_us < d->oldest->rq.began_us)
			d->oldest = job;
	}
}

void
manager_state(void)
{
	struct doing d = {0};
	struct audit_stats audit;

	box_each(look_at, &d);
	audit_stats(&audit);
	log_info("state: sandboxes: %zu being made, %zu running, %zu stopped, %zu rolling back, "
		 "%zu being removed; %zu sessions, %zu snapshots",
	    d.in[BOX_CREATING], d.in[BOX_RUNNING], d.in[BOX_STOPPED], d.in[BOX_ROLLING_BACK],
	    d.in[BOX_DESTROYING], session_count(), snap_count());
	log_info(
	    "state: requests: %zu running, %zu waiting for their sandbox", d.running, d.waiting);
	if (d.oldest != NULL) {
		log_request(d.oldest->rq.request_id);
		log_info("state: the oldest, of %s, runs for %lld s", d.oldest->rq.target,
		    (long long)((time_boot_us() - d.oldest->rq.began_us) / 1000000));
		log_request(NULL);
	}
	log_info("state: the engine is %s, %zu calls open; queued: %zu for apid, %zu for "
		 "dockerd-proxy, %zu for egressd",
	    engine_up() ? "there" : "away", engine_calls_open(),
	    mgr.apid != NULL ? chan_queued(mgr.apid) : 0, chan_queued(mgr.docker),
	    chan_queued(mgr.egress));
	log_info("state: audit log: %llu lines, %llu lost, %lld ms behind%s",
	    (unsigned long long)audit.lines, (unsigned long long)audit.lost,
	    (long long)(audit.lag_us / 1000), audit.stuck ? ", it cannot be written" : "");
}
