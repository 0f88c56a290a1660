/*
 * After a death the parent executes itself anew: everything starts from nothing but the listening
 * socket and, in one argument, what must not be forgotten: how often this has happened, and what
 * the operator said about the instance.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent-sandboxd/parent.h"
#include "common/log.h"

#define STATE_MAX 320
#define PAUSE_MS 1000
static const char option[] = "--resume=";

/* "partial,instance,unfiltered,restarts,died,status,time,time…" */
void
restart_parse(struct parent *p, const char *state)
{
	long long n;
	char *end;

	for (size_t i = 0; *state != '\0'; i++) {
		errno = 0;
		n = strtoll(state, &end, 10);
		if (errno != 0 || end == state || n < 0 || i >= 6 + RESTARTS_MAX ||
		    (*end != ',' && *end != '\0'))
			fatalx("--resume: only for this program's own use");
		if (i == 0)
			p->partial = n != 0;
		else if (i == 1)
			p->instance = n <= INSTANCE_NEW ? n : INSTANCE_CHECK;
		else if (i == 2)
			p->unfiltered = n != 0;
		else if (i == 3)
			p->restarts_total = n;
		else if (i == 4)
			p->died = n <= LONG_LIVED ? (int)n : 0;
		else if (i == 5)
			p->died_status = (int)n;
		else if (n <= now_ms() && now_ms() - n < RESTART_WINDOW_MS)
			p->restarts[p->nrestarts++] = n;
		state = end + (*end == ',');
	}
}

/* Waits, but not against the operator's wish to end. */
static void
pause_before(struct parent *p, int64_t ms)
{
	const struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
	sigset_t stop;

	sigemptyset(&stop);
	sigaddset(&stop, SIGTERM);
	sigaddset(&stop, SIGINT);
	if (sigtimedwait(&stop, NULL, &ts) > 0) {
		log_info("%s: ended while waiting to start again", p->url);
		exit(0);
	}
}

static void
count_restart(struct parent *p)
{
	int64_t now = now_ms();
	size_t kept = 0;

	for (size_t i = 0; i < p->nrestarts; i++)
		if (now - p->restarts[i] < RESTART_WINDOW_MS)
			p->restarts[kept++] = p->restarts[i];
	p->nrestarts = kept;
	if (kept == RESTARTS_MAX)
		fatalx("%d restarts in %d minutes: giving up", RESTARTS_MAX,
		    RESTART_WINDOW_MS / 60000);
	p->restarts[p->nrestarts++] = now;
	p->restarts_total++;
}

void
restart_exec(struct parent *p, char **argv, int counted)
{
	char state[STATE_MAX];
	size_t argc = 0, n = 0, len;
	char **args;

	if (counted)
		count_restart(p);
	/* The first is made at once; after that something may be wrong for longer. */
	pause_before(p, counted && p->nrestarts == 1 ? 0 : PAUSE_MS);
	len = snprintf(state, sizeof(state), "%s%d,%d,%d,%lld,%d,%d", option, p->partial,
	    (int)p->instance, p->unfiltered, (long long)p->restarts_total, p->died, p->died_status);
	for (size_t i = 0; i < p->nrestarts; i++)
		len +=
		    snprintf(state + len, sizeof(state) - len, ",%lld", (long long)p->restarts[i]);
	while (argv[argc] != NULL)
		argc++;
	if ((args = calloc(argc + 2, sizeof(*args))) == NULL)
		fatal("restart");
	args[n++] = argv[0];
	args[n++] = state;
	for (size_t i = 1; i < argc; i++)
		if (strncmp(argv[i], option, strlen(option)) != 0 || i > 1)
			args[n++] = argv[i];
	if (fcntl(LISTEN_FD, F_SETFD, 0) == -1)
		fatal("fcntl");
	log_info("starting again");
	execv(p->self, args);
	fatal("%s", p->self);
}
