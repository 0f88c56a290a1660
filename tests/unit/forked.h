/*
 * For tests of what ends a process: runs a function in a forked child and gives its exit status and
 * what it logged.
 */
#ifndef TESTS_UNIT_FORKED_H
#define TESTS_UNIT_FORKED_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

struct forked {
	int status; /* as from waitpid(2) */
	char log[8192];
};

/* The child ends with status 0 when fn returns. */
static inline struct forked
forked_run(void (*fn)(void *), void *arg)
{
	struct forked f = {0};
	FILE *log = tmpfile();
	pid_t pid;

	assert_non_null(log);
	fflush(NULL);
	pid = fork();
	assert_int_not_equal(pid, -1);
	if (pid == 0) {
		dup2(fileno(log), STDERR_FILENO);
		fn(arg);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &f.status, 0), pid);
	rewind(log);
	f.log[fread(f.log, 1, sizeof(f.log) - 1, log)] = '\0';
	fclose(log);
	return f;
}

/* It must have ended by fatal() with this text. */
static inline void
assert_fatal(void (*fn)(void *), void *arg, const char *text)
{
	struct forked f = forked_run(fn, arg);

	if (!WIFEXITED(f.status) || WEXITSTATUS(f.status) != 1 || strstr(f.log, text) == NULL)
		fail_msg("status 0x%x, wanted \"%s\" in: %s", (unsigned)f.status, text, f.log);
}

static inline void
assert_survives(void (*fn)(void *), void *arg)
{
	struct forked f = forked_run(fn, arg);

	if (f.status != 0)
		fail_msg("status 0x%x: %s", (unsigned)f.status, f.log);
}

#endif
