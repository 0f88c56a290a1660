/* CLOCK_REALTIME as somebody has set it; the others are as they are. For one file of a program. */
#ifndef TESTS_UNIT_WALL_CLOCK_H
#define TESTS_UNIT_WALL_CLOCK_H

#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int64_t ahead_s;

int
clock_gettime(clockid_t id, struct timespec *ts)
{
	int rc = (int)syscall(SYS_clock_gettime, id, ts);

	if (id == CLOCK_REALTIME)
		ts->tv_sec += ahead_s;
	return rc;
}

#endif
