/* The last steps before exec. Their order matters: see command_run(). */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "sandbox-init/args.h"
#include "sandbox-init/command.h"

/* PID 1 must be the last that the kernel takes when memory is short. */
static void
offer_to_oom_killer(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	(void)!write(fd, "1000", 4);
	close(fd);
}

/* As a shell looks for it: goes on after what is not there; what may not be run is remembered. */
static int
exec_from_path(const struct args *a)
{
	char file[PATH_MAX];
	const char *path = a->path;
	int n, error = ENOENT;

	while ((n = args_candidate(&path, a->argv[0], file, sizeof(file))) != 0) {
		if (n < 0)
			continue;
		execve(file, a->argv, a->envp);
		if (errno != ENOENT && errno != ENOTDIR) {
			error = errno;
			if (errno != EACCES)
				break;
		}
	}
	return error;
}

static void
complain(const char *name, const char *why)
{
	struct iovec v[] = {{(void *)(uintptr_t)name, strlen(name)}, {(void *)(uintptr_t) ": ", 2},
	    {(void *)(uintptr_t)why, strlen(why)}, {(void *)(uintptr_t) "\n", 1}};

	(void)!writev(2, v, 4);
}

/*
 * Nothing of PID 1 may be open when the process becomes dumpable, since from then on other
 * processes of this user can look into it; and only a dumpable one may write its oom_score_adj.
 */
void
command_run(const struct args *a, int *missing)
{
	sigset_t none;
	int error;

	close_range(3, INT_MAX, 0); /* gVisor refuses what is more */
	prctl(PR_SET_DUMPABLE, 1);
	offer_to_oom_killer();
	setsid();
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (a->argv[0][0] == '\0') {
		error = ENOENT;
	} else if (strchr(a->argv[0], '/') != NULL) {
		execve(a->argv[0], a->argv, a->envp);
		error = errno;
	} else {
		error = exec_from_path(a);
	}
	if (missing != NULL) {
		*missing = error;
		_exit(127);
	}
	if (error == ENOENT || error == ENOTDIR) {
		complain(a->argv[0], "not found");
		_exit(127);
	}
	complain(a->argv[0], strerror(error));
	_exit(126);
}
