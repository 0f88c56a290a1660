/* Standard input of a command: passed on as it comes (exec.h). */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "agent-sandbox/client.h"
#include "agent-sandbox/exec.h"

static int waits;

/* A job in the background must not take the terminal's input: it would be stopped. */
static int
is_foreground(void)
{
	return !isatty(STDIN_FILENO) || tcgetpgrp(STDIN_FILENO) == getpgrp();
}

int
exec_input_there(void)
{
	struct stat st;

	if (fstat(STDIN_FILENO, &st) == -1)
		return 0;
	if (S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3)) /* /dev/null */
		return 0;
	if (S_ISDIR(st.st_mode))
		return 0;
	return is_foreground();
}

ssize_t
exec_input_read(void *arg, char *buf, size_t size)
{
	struct pollfd p = {STDIN_FILENO, POLLIN, 0};
	ssize_t n;

	(void)arg;
	if (poll(&p, 1, 0) == 0) {
		waits = 1;
		return API_LATER;
	}
	n = read(STDIN_FILENO, buf, size);
	if (n == -1 && (errno == EINTR || errno == EAGAIN)) {
		waits = 1;
		return API_LATER;
	}
	if (n == -1)
		fprintf(stderr, "agent-sandbox: standard input: %s\n", strerror(errno));
	return n;
}

int
exec_input_waits(void)
{
	return waits;
}

void
exec_input_go_on(void)
{
	waits = 0;
}
