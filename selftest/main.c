/*
 * The self-test's program: runs inside a sandbox, tries the ways out of the table (checks.h), and
 * prints one line for each: "ok", "BROKEN" or "skip", the check's name, the evidence. It is static
 * and needs nothing of the image.
 */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/wait.h>

#include "selftest/neighbour.h"
#include "selftest/probe.h"

#define SECONDS_MAX 60 /* for one check */
#define SAID_MAX 7000

struct probe probe;

static struct {
	char broken[SAID_MAX], holds[SAID_MAX], skipped[SAID_MAX];
} said;

#define CHECK_ROW(name, modes, what) {#name, modes, check_##name},
static const struct {
	const char *name;
	unsigned modes;
	void (*run)(void);
} checks[] = {CHECKS(CHECK_ROW)};

void
holds(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(said.holds, sizeof(said.holds), fmt, ap);
	va_end(ap);
}

void
broken(const char *fmt, ...)
{
	size_t n = strlen(said.broken);
	va_list ap;

	if (n > 0 && n < sizeof(said.broken) - 2)
		n += (size_t)snprintf(said.broken + n, sizeof(said.broken) - n, "; ");
	va_start(ap, fmt);
	vsnprintf(said.broken + n, sizeof(said.broken) - n, fmt, ap);
	va_end(ap);
}

void
skipped(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(said.skipped, sizeof(said.skipped), fmt, ap);
	va_end(ap);
}

void
filtered(const char *what, long result)
{
	if (result != -1)
		broken("%s: done", what);
	else if (errno != EPERM && errno != ENOSYS)
		broken("%s: not filtered: %s", what, strerror(errno));
}

void
refused(const char *what, long result)
{
	if (result != -1)
		broken("%s: done", what);
}

/* In a process of its own: what ends or blocks a check ends no other. */
static void
say(size_t i, int out)
{
	const char *word = "ok", *text = said.holds;

	alarm(SECONDS_MAX);
	checks[i].run();
	if (said.broken[0] != '\0') {
		word = "BROKEN";
		text = said.broken;
	} else if (said.holds[0] == '\0' && said.skipped[0] != '\0') {
		word = "skip";
		text = said.skipped;
	} else if (said.holds[0] == '\0') {
		word = "BROKEN";
		text = "the check found nothing to say";
	}
	dprintf(out, "%s %s %s\n", word, checks[i].name, text);
	_exit(0);
}

static void
run_check(size_t i)
{
	char line[SAID_MAX + 128];
	size_t n = 0;
	ssize_t got;
	int status, out[2];
	pid_t pid;

	if (pipe(out) == -1 || (pid = fork()) == -1) {
		printf("BROKEN %s no process for it: %s\n", checks[i].name, strerror(errno));
		return;
	}
	if (pid == 0) {
		close(out[0]);
		say(i, out[1]);
	}
	close(out[1]);
	while ((got = read(out[0], line + n, sizeof(line) - n)) > 0)
		n += (size_t)got;
	close(out[0]);
	while (waitpid(pid, &status, 0) == -1 && errno == EINTR)
		;
	if (n > 0 && WIFEXITED(status))
		fwrite(line, 1, n, stdout);
	else
		printf("BROKEN %s it ended with %s %d\n", checks[i].name,
		    WIFSIGNALED(status) ? "signal" : "status",
		    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	fflush(stdout);
}

static int
wanted(size_t i)
{
	if ((checks[i].modes & probe.mode) == 0)
		return 0;
	for (size_t k = 0; k < probe.only.n; k++)
		if (strcmp(probe.only.v[k], checks[i].name) == 0)
			return 1;
	return probe.only.n == 0;
}

static void
add(struct texts *t, const char *text)
{
	if (t->n < TEXTS_MAX)
		t->v[t->n++] = text;
}

static unsigned
mode_of(const char *name)
{
	return strcmp(name, "none") == 0     ? MODE_NONE
	       : strcmp(name, "list") == 0   ? MODE_LIST
	       : strcmp(name, "proxy") == 0  ? MODE_PROXY
	       : strcmp(name, "bridge") == 0 ? MODE_BRIDGE
					     : 0;
}

static int
read_arguments(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "b:n:o:r:s:t:")) != -1) {
		switch (c) {
		case 'b':
			probe.neighbour = optarg;
			break;
		case 'n':
			add(&probe.near, optarg);
			break;
		case 'o':
			add(&probe.only, optarg);
			break;
		case 'r':
			probe.rebind = optarg;
			break;
		case 's':
			add(&probe.own, optarg);
			break;
		case 't':
			probe.target = optarg;
			break;
		default:
			return -1;
		}
	}
	if (optind != argc - 1)
		return -1;
	probe.mode = mode_of(argv[optind]);
	return probe.mode != 0 ? 0 : -1;
}

int
main(int argc, char **argv)
{
	signal(SIGPIPE, SIG_IGN);
	if (argc == 2 && strcmp(argv[1], "neighbour") == 0)
		return neighbour_listen();
	if (argc == 2 && strcmp(argv[1], "environments") == 0)
		return neighbour_environments();
	if (read_arguments(argc, argv) == -1) {
		fprintf(stderr, "usage: selftest-probe [-t TARGET] [-r NAME] [-n ADDRESS:PORT]... "
				"[-s ADDRESS]... [-b ADDRESS:PORT]\n"
				"                      [-o CHECK]... none|list|proxy|bridge\n");
		return 2;
	}
	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++)
		if (wanted(i))
			run_check(i);
	return 0;
}
