/* A session for fuzz targets: a job of each kind, all peers in this process, nothing that waits. */
#ifndef TESTS_SESSION_HARNESS_H
#define TESTS_SESSION_HARNESS_H

#include "sessiond/job.h"
#include "sessiond/session.h"

#define HARNESS_JOBS 10

#define HARNESS_DIALS 16

struct harness {
	struct event_base *base;
	struct session s;
	int manager; /* managerd's end */
	int guest;   /* the sandbox's end */
	int njobs;
	int dials[HARNESS_DIALS]; /* what is behind connections out */
	int ndials;
	int peers[HARNESS_JOBS]; /* the clients' ends; -1: a file */
	int ended;               /* S_JOB_END that managerd has read */
};

/* A session that is up and has no job yet. */
void harness_open(struct harness *, uint32_t framing);
/* What managerd would have asked for; returns the number of the job, the channel is given at once.
 */
int harness_exec(struct harness *, int with_stdin, int keep);
int harness_file(struct harness *, enum job_kind);
int harness_pack(struct harness *, enum job_kind);
/* Runs the loop until nothing is to be done, and reads what the peers were sent (if read is set).
 */
void harness_turn(struct harness *, int read);
/* Ends the session and checks that every job was ended exactly once. */
void harness_close(struct harness *);

#endif
