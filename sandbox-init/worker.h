/*
 * A process of our own for one archive: libarchive works there with blocking calls, and a bug in it
 * stays there. It holds only the data pipe, a control socket and the folder.
 */
#ifndef SANDBOX_INIT_WORKER_H
#define SANDBOX_INIT_WORKER_H

#include <stdint.h>
#include <sys/types.h>

#include "proto/guest.h"
#include "sandbox-init/temp.h"

#define WORKER_DATA 3 /* pipe: the tar, to or from PID 1 */
#define WORKER_CONTROL \
	4 /* SEQPACKET socket: struct worker_report out, one byte in: go on and finish */
#define WORKER_FOLDER                                                               \
	5 /* O_PATH descriptor of the root of the tree (EXPORT: or of the one file) \
	   */

struct worker_report {
	uint32_t status;
	char text[1024];
};

struct worker_job {
	int export;
	int exact; /* EXPORT: all others stand still, modes may be changed for a moment; IMPORT:
		      RESTORE */
	char name[256]; /* EXPORT of one file: its name */
	int sweeps;     /* nothing but to remove staging, whose own worker was killed */
	char staging[TEMP_NAME_MAX]; /* IMPORT: name of the folder to unpack into first; "" when
					exact */
	/* IMPORT: folders between /workspace and the target, to tell where a link leads; -1: not
	 * below it */
	int depth;
};

/* Forks. The child runs the job and never returns; data, control and folder are its ends, which
 * stay open here. */
pid_t worker_fork(const struct worker_job *, int data, int control, int folder);

/* For the jobs: says how it ended and leaves. The text is "NAME: reason" or "". */
void worker_done(uint32_t status, const char *name, const char *reason) __attribute__((noreturn));

void export_run(const struct worker_job *) __attribute__((noreturn));
void import_run(const struct worker_job *) __attribute__((noreturn));

#endif
