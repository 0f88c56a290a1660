/* Pipes between a channel and a process, and the pipes that background jobs still hold after their
 * command has ended. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "sandbox-init/channel.h"
#include "sandbox-init/pipes.h"
#include "sandbox-init/stream.h"

#define LEFT_MAX 128        /* pipes of background jobs that are kept open */
#define LEFT_PAUSE_US 10000 /* between two reads of one, so that a chatty job costs little */

struct left {
	struct watch watch;
	struct timer timer;
};

static struct left *left_pipes[LEFT_MAX];
static size_t left_next;

void
feed_close(struct feed *f)
{
	if (f->fd >= 0) {
		loop_unwatch(&f->watch);
		close(f->fd);
	}
	f->fd = -1;
	mem_queue_free(&f->queue);
}

static void
feed_discard(struct feed *f)
{
	size_t n = f->queue.end - f->queue.start;

	feed_close(f);
	channel_consumed(f->ch, n);
}

/* How many bytes the pipe took; -1: nobody will ever read them. */
static ssize_t
feed_write(int fd, const uint8_t *p, size_t len)
{
	ssize_t n = write(fd, p, len);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	return n;
}

static void
on_feed(void *arg, short revents)
{
	struct feed *f = arg;
	ssize_t n;

	(void)revents;
	n = feed_write(f->fd, f->queue.p + f->queue.start, f->queue.end - f->queue.start);
	if (n < 0) {
		feed_discard(f);
		return;
	}
	f->queue.start += (size_t)n;
	if (f->queue.start == f->queue.end) {
		f->watch.events = 0;
		mem_queue_free(&f->queue);
		if (f->ended)
			feed_close(f);
	}
	channel_consumed(f->ch, (size_t)n);
}

void
feed_open(struct feed *f, struct channel *ch, int fd)
{
	memset(f, 0, sizeof(*f));
	f->ch = ch;
	f->fd = fd;
	if (fd >= 0)
		loop_watch(&f->watch, fd, on_feed, f);
}

void
feed_push(struct feed *f, const uint8_t *data, size_t len)
{
	ssize_t n = 0;

	if (f->fd < 0 || f->ended) {
		channel_consumed(f->ch, len);
		return;
	}
	if (f->queue.start == f->queue.end)
		n = feed_write(f->fd, data, len);
	if (n < 0) {
		feed_close(f);
		channel_consumed(f->ch, len);
		return;
	}
	if ((size_t)n < len) {
		memcpy(mem_queue_reserve(&f->queue, len - (size_t)n), data + n, len - (size_t)n);
		f->queue.end += len - (size_t)n;
		f->watch.events = POLLOUT;
	}
	channel_consumed(f->ch, (size_t)n);
}

void
feed_end(struct feed *f)
{
	f->ended = 1;
	if (f->queue.start == f->queue.end)
		feed_close(f);
}

static void
source_finish(struct source *s)
{
	source_close(s);
	s->done(s->arg);
}

static void
on_source(void *arg, short revents)
{
	struct source *s = arg;
	size_t max = channel_allows(s->ch);
	ssize_t n;

	(void)revents;
	if (max == 0) { /* the other stream of this channel took it */
		source_credit(s);
		return;
	}
	if (s->left >= 0 && (int64_t)max > s->left)
		max = (size_t)s->left;
	n = read(s->fd, stream_reserve(), max);
	if (n < 0 && (errno == EINTR || (errno == EAGAIN && s->left < 0)))
		return;
	if (n <= 0) {
		source_finish(s);
		return;
	}
	s->bytes += n;
	channel_put(s->ch, s->type, (size_t)n);
	if (s->left > 0)
		s->left -= n;
	source_credit(s);
	if (s->left == 0)
		s->done(s->arg);
}

void
source_open(
    struct source *s, struct channel *ch, int fd, uint8_t type, void (*done)(void *), void *arg)
{
	memset(s, 0, sizeof(*s));
	s->ch = ch;
	s->fd = fd;
	s->left = -1;
	s->type = type;
	s->done = done;
	s->arg = arg;
	loop_watch(&s->watch, fd, on_source, s);
	s->watch.outward = 1;
	source_credit(s);
}

void
source_credit(struct source *s)
{
	if (s->fd >= 0)
		s->watch.events =
		    !s->held && s->left != 0 && channel_allows(s->ch) > 0 ? POLLIN : 0;
}

void
source_drain(struct source *s)
{
	int n = 0;

	if (s->fd < 0)
		return;
	if (ioctl(s->fd, FIONREAD, &n) < 0)
		n = 0;
	s->left = n;
	source_credit(s);
}

void
source_close(struct source *s)
{
	if (s->fd < 0)
		return;
	loop_unwatch(&s->watch);
	close(s->fd);
	s->fd = -1;
}

static void
left_close(struct left *l)
{
	loop_unwatch(&l->watch);
	timer_clear(&l->timer);
	close(l->watch.fd);
	l->watch.fd = -1;
}

static void
left_again(void *arg)
{
	struct left *l = arg;

	l->watch.events = POLLIN;
}

static void
on_left(void *arg, short revents)
{
	static uint8_t scratch[16384];
	struct left *l = arg;
	ssize_t n = read(l->watch.fd, scratch, sizeof(scratch));

	(void)revents;
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
		left_close(l);
		return;
	}
	l->watch.events = 0;
	timer_set(&l->timer, loop_now() + LEFT_PAUSE_US, left_again, l);
}

/* A free place, else the oldest one's. */
static struct left *
left_place(void)
{
	struct left *l;
	size_t i;

	for (i = 0; i < LEFT_MAX; i++)
		if (left_pipes[i] == NULL || left_pipes[i]->watch.fd < 0)
			break;
	if (i == LEFT_MAX)
		i = left_next++ % LEFT_MAX;
	l = left_pipes[i];
	if (l == NULL)
		l = left_pipes[i] = mem_new(sizeof(*l));
	else if (l->watch.fd >= 0)
		left_close(l);
	return l;
}

void
source_leave(struct source *s)
{
	struct pollfd p = {.fd = s->fd, .events = POLLIN};
	struct left *l;

	if (s->fd < 0)
		return;
	poll(&p, 1, 0);
	if (p.revents & POLLHUP) {
		source_close(s);
		return;
	}
	loop_unwatch(&s->watch);
	l = left_place();
	loop_watch(&l->watch, s->fd, on_left, l);
	l->watch.events = POLLIN;
	s->fd = -1;
}
