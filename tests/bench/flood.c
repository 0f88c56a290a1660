/* Connection attempts from one loopback address at a steady rate; the oldest one is closed when
 * HELD are open. Prints how many were made and how many of them the kernel refused. Usage: flood
 * FROM PORT A_SECOND SECONDS */
#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define HELD 2048

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
	static int held[HELD];
	const struct linger reset = {.l_onoff = 1};
	struct sockaddr_in from = {.sin_family = AF_INET}, to = {.sin_family = AF_INET};
	struct rlimit files = {HELD + 64, HELD + 64};
	long made = 0, failed = 0;
	int64_t start, end;
	int rate;

	if (argc != 5 || setrlimit(RLIMIT_NOFILE, &files) == -1)
		return 2;
	from.sin_addr.s_addr = inet_addr(argv[1]);
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	to.sin_port = htons((uint16_t)atoi(argv[2]));
	rate = atoi(argv[3]);
	start = now();
	end = start + atoi(argv[4]) * INT64_C(1000000000);
	while (now() < end) {
		for (; now() < end && made < (now() - start) * rate / 1000000000; made++) {
			int *fd = &held[made % HELD];

			if (*fd > 0)
				close(*fd);
			*fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
			if (*fd == -1)
				return 1;
			setsockopt(*fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
			if (bind(*fd, (struct sockaddr *)&from, sizeof(from)) == -1 ||
			    (connect(*fd, (struct sockaddr *)&to, sizeof(to)) == -1 &&
				errno != EINPROGRESS))
				failed++;
		}
		usleep(500);
	}
	printf("%ld %ld\n", made, failed);
	return 0;
}
