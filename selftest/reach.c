/* TCP connections to addresses: many at once, or one. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "selftest/probe.h"

void
reach_add(struct reach *r, size_t *n, size_t max, const char *address, unsigned port)
{
	if (*n == max)
		return;
	snprintf(r[*n].text, sizeof(r[*n].text), strchr(address, ':') ? "[%s]:%u" : "%s:%u",
	    address, port);
	r[*n].fd = -1;
	(*n)++;
}

socklen_t
reach_parse(const char *text, struct sockaddr_storage *out)
{
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)out;
	struct sockaddr_in *four = (struct sockaddr_in *)out;
	const char *colon = strrchr(text, ':');
	char host[80];
	size_t n;

	memset(out, 0, sizeof(*out));
	if (colon == NULL || (n = (size_t)(colon - text)) >= sizeof(host) || n < 2)
		return 0;
	memcpy(host, text, n);
	host[n] = '\0';
	if (host[0] == '[' && host[n - 1] == ']') {
		host[n - 1] = '\0';
		six->sin6_family = AF_INET6;
		six->sin6_port = htons((uint16_t)atoi(colon + 1));
		return inet_pton(AF_INET6, host + 1, &six->sin6_addr) == 1 ? sizeof(*six) : 0;
	}
	four->sin_family = AF_INET;
	four->sin_port = htons((uint16_t)atoi(colon + 1));
	return inet_pton(AF_INET, host, &four->sin_addr) == 1 ? sizeof(*four) : 0;
}

static int64_t
now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void
begin(struct reach *r)
{
	struct sockaddr_storage to;
	socklen_t len = reach_parse(r->text, &to);

	r->error = EINVAL;
	if (len == 0)
		return;
	r->fd = socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (r->fd == -1 || connect(r->fd, (struct sockaddr *)&to, len) == -1)
		r->error = errno;
	else
		r->error = 0;
}

/* Waits for those under way until the time is up; then each is closed. */
void
reach_all(struct reach *r, size_t n, int ms)
{
	int64_t until = now_ms() + ms;
	socklen_t len;
	int waiting = 1;

	for (size_t i = 0; i < n; i++)
		begin(&r[i]);
	while (waiting && now_ms() < until) {
		waiting = 0;
		for (size_t i = 0; i < n; i++) {
			struct pollfd p = {.fd = r[i].fd, .events = POLLOUT};

			if (r[i].error != EINPROGRESS)
				continue;
			waiting = 1;
			len = sizeof(r[i].error);
			if (poll(&p, 1, 0) == 1)
				getsockopt(r[i].fd, SOL_SOCKET, SO_ERROR, &r[i].error, &len);
		}
		usleep(5000);
	}
	for (size_t i = 0; i < n; i++) {
		if (r[i].error == EINPROGRESS)
			r[i].error = ETIMEDOUT;
		if (r[i].fd != -1)
			close(r[i].fd);
	}
}

int
reach_one(const char *text, int ms)
{
	struct timeval tv = {ms / 1000, ms % 1000 * 1000};
	struct sockaddr_storage to;
	socklen_t len = reach_parse(text, &to);
	int fd, e;

	if (len == 0) {
		errno = EINVAL;
		return -1;
	}
	if ((fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0)) == -1)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
	if (connect(fd, (struct sockaddr *)&to, len) == 0)
		return fd;
	e = errno;
	close(fd);
	errno = e;
	return -1;
}
