/* The start of a command: its working directory, its pipes, the fork of its supervisor. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-init/args.h"
#include "sandbox-init/channel.h"
#include "sandbox-init/launch.h"
#include "sandbox-init/supervisor.h"

#define FILES_WANTED 4096

static int dev_null = -1;
static mode_t commands_umask;
static struct rlimit commands_files;

/* Pipes of commands, connections and listeners together may be more than a command's share. */
static void
raise_files(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) < 0)
		return;
	commands_files = r;
	r.rlim_cur = r.rlim_max < FILES_WANTED ? r.rlim_max : FILES_WANTED;
	if (r.rlim_cur > commands_files.rlim_cur)
		setrlimit(RLIMIT_NOFILE, &r);
}

void
launch_init(void)
{
	dev_null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	commands_umask = umask(0);
	raise_files();
}

/* Each pair is {read end, write end}; ours is made non-blocking. */
enum { IN, OUT, ERR, REPORT, NPIPES };

static void
close_pipes(int p[NPIPES][2])
{
	int i, k;

	for (i = 0; i < NPIPES; i++)
		for (k = 0; k < 2; k++)
			if (p[i][k] >= 0)
				close(p[i][k]);
}

static int
make_pipes(int p[NPIPES][2], int with_stdin)
{
	int i;

	for (i = 0; i < NPIPES; i++)
		p[i][0] = p[i][1] = -1;
	for (i = 0; i < NPIPES; i++) {
		if (i == IN && !with_stdin && dev_null >= 0)
			continue;
		if (pipe2(p[i], O_CLOEXEC) < 0 ||
		    fcntl(p[i][i != IN ? 0 : 1], F_SETFL, O_NONBLOCK) < 0) {
			close_pipes(p);
			return -1;
		}
	}
	return 0;
}

int
launch_workdir(struct channel *ch, const char *dir)
{
	const char *why;

	if (dir[0] == '\0')
		dir = "/workspace";
	if ((dir[0] == '/' || chdir("/workspace") == 0) && chdir(dir) == 0)
		return 0;
	switch (errno) {
	case ENOENT:
		why = "does not exist";
		break;
	case ENOTDIR:
		why = "is not a directory";
		break;
	case EACCES:
		why = "is not accessible to the sandbox user";
		break;
	default:
		why = strerror(errno);
	}
	channel_end(ch, 400, 0, "workdir %s %s", dir, why);
	return -1;
}

int
launch(const struct args *a, int with_stdin, int must_exist, struct launched *l)
{
	struct spawn s = {
	    .umask = commands_umask, .must_exist = must_exist, .files = commands_files, .args = a};
	int p[NPIPES][2], error;

	if (make_pipes(p, with_stdin) < 0)
		return -1;
	s.in = p[IN][0] >= 0 ? p[IN][0] : dev_null;
	s.out = p[OUT][1];
	s.err = p[ERR][1];
	s.report = p[REPORT][1];
	l->supervisor = fork();
	if (l->supervisor == 0)
		supervisor_run(&s);
	error = errno;
	l->in = l->out = l->err = l->report = -1;
	if (l->supervisor > 0) {
		if (with_stdin) {
			l->in = p[IN][1];
			p[IN][1] = -1;
		}
		l->out = p[OUT][0];
		l->err = p[ERR][0];
		l->report = p[REPORT][0];
		p[OUT][0] = p[ERR][0] = p[REPORT][0] = -1;
	}
	close_pipes(p);
	errno = error;
	return l->supervisor > 0 ? 0 : -1;
}
