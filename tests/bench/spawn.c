/* The limit of every exec: posix_spawn of a command on the host and the wait for its end. Prints
 * one duration in nanoseconds a line. Usage: spawn COUNT GAP_MS COMMAND [ARGUMENT...] */
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int64_t
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

int
main(int argc, char **argv)
{
	char *const env[] = {"PATH=/usr/bin:/bin", NULL};
	int64_t began;
	pid_t pid;

	if (argc < 4)
		return 2;
	for (int n = atoi(argv[1]); n > 0; n--) {
		usleep((useconds_t)atoi(argv[2]) * 1000);
		began = now();
		if (posix_spawn(&pid, argv[3], NULL, NULL, argv + 3, env) != 0 ||
		    waitpid(pid, NULL, 0) == -1)
			return 1;
		printf("%lld\n", (long long)(now() - began));
	}
	return 0;
}
