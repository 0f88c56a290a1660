/* Lines to standard output without ever waiting for the reader (outbox.h). */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clients/mcp/outbox.h"
#include "common/log.h"

#define ROOM_KEPT ((size_t)256 << 10)

void
outbox_init(struct outbox *o, int fd)
{
	struct stat st;

	memset(o, 0, sizeof(*o));
	o->fd = fd;
	o->is_socket = fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
}

void
outbox_free(struct outbox *o)
{
	free(o->buf);
	memset(o, 0, sizeof(*o));
}

size_t
outbox_waiting(const struct outbox *o)
{
	return o->n - o->at;
}

static int
append(const char *p, size_t n, void *arg)
{
	struct outbox *o = arg;

	if (n > o->room - o->n && o->at > 0) {
		memmove(o->buf, o->buf + o->at, o->n - o->at);
		o->n -= o->at;
		o->at = 0;
	}
	if (n > o->room - o->n) {
		o->room = (o->n + n) * 2;
		if ((o->buf = realloc(o->buf, o->room)) == NULL)
			fatal("answers of %zu bytes", o->room);
	}
	memcpy(o->buf + o->n, p, n);
	o->n += n;
	return 0;
}

void
outbox_put(struct outbox *o, json_t *message)
{
	if (json_dump_callback(message, append, o, JSON_COMPACT) == -1)
		fatalx("an answer that is no JSON");
	append("\n", 1, o);
	json_decref(message);
}

/*
 * The flag O_NONBLOCK would be shared with whoever else holds the same pipe or terminal. A pipe
 * that can be written takes PIPE_BUF bytes without waiting; a socket is asked not to.
 */
static ssize_t
write_some(struct outbox *o)
{
	struct pollfd p = {.fd = o->fd, .events = POLLOUT};
	size_t n = o->n - o->at;

	if (o->is_socket)
		return send(o->fd, o->buf + o->at, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (poll(&p, 1, 0) != 1)
		return errno = EAGAIN, -1;
	return write(o->fd, o->buf + o->at, n < PIPE_BUF ? n : PIPE_BUF);
}

int
outbox_flush(struct outbox *o)
{
	while (o->at < o->n) {
		ssize_t n = write_some(o);

		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1)
			return errno == EAGAIN ? 0 : -1;
		o->at += (size_t)n;
	}
	o->at = o->n = 0;
	if (o->room > ROOM_KEPT) {
		free(o->buf);
		o->buf = NULL;
		o->room = 0;
	}
	return 0;
}
