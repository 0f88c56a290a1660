/* Starts a worker process and, inside it, reports its end. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox-init/sweep.h"
#include "sandbox-init/worker.h"

/* First out of the way, so that none is overwritten before it was copied. */
static void
arrange(int data, int control, int folder)
{
	int fds[3] = {data, control, folder}, i;

	for (i = 0; i < 3; i++)
		fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 16);
	for (i = 0; i < 3; i++)
		dup2(fds[i], WORKER_DATA + i);
	close_range(0, 2, 0);
	close_range(WORKER_FOLDER + 1, INT_MAX, 0);
}

pid_t
worker_fork(const struct worker_job *job, int data, int control, int folder)
{
	struct rlimit files;
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	arrange(data, control, folder);
	/* One descriptor for each level of folders. */
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	if (job->sweeps) {
		sweep(WORKER_FOLDER, job->staging);
		worker_done(200, "", "");
	}
	if (job->export)
		export_run(job);
	import_run(job);
}

void
worker_done(uint32_t status, const char *name, const char *reason)
{
	struct worker_report r = {.status = status};

	if (status != 200)
		snprintf(r.text, sizeof(r.text), "%.800s%s%s", name, *name ? ": " : "", reason);
	(void)!send(WORKER_CONTROL, &r, sizeof(r), MSG_NOSIGNAL);
	_exit(0);
}
