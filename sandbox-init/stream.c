/*
 * Input: finds frames in what arrives, skipping garbage byte by byte. Output: one queue, kept
 * short, because data are read from where they come from only when they can be sent soon.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-init/loop.h"
#include "sandbox-init/mem.h"
#include "sandbox-init/stream.h"

#define IN_STEP 16384
#define OUT_HIGH (2 * FRAME_DATA_MAX)  /* more is queued: no data frames */
#define OUT_STUCK (8 * FRAME_DATA_MAX) /* more is queued: no more requests are read */
#define OUT_PIECE 32768                /* what the engine copies at a time */
#define OUT_PIPE 65536                 /* what a pipe has */
#define OUT_PIPE_BUSY (4 * OUT_PIPE)   /* and what ours gets while it is full now and then */

static struct mem_queue in, out;
static struct watch in_watch, out_watch;
static int in_ended; /* until stream_tick() looks again: a fifo may get a new writer */
static int out_pipe = OUT_PIPE, out_was_full;
static void (*frame_handler)(const struct frame *);

static void
want_input(void)
{
	in_watch.events = in_ended || out.end - out.start > OUT_STUCK ? 0 : POLLIN;
}

static void
take_frames(void)
{
	struct frame f;
	int64_t n;

	while (in.start < in.end) {
		n = frame_parse(in.p + in.start, in.end - in.start, &f);
		if (n == 0)
			break;
		if (n < 0) {
			in.start += frame_resync(in.p + in.start, in.end - in.start);
			continue;
		}
		in.start += (size_t)n;
		frame_handler(&f);
	}
}

/* What a frame at the start of the queue still needs, so that a big one is read in few steps. */
static size_t
in_wanted(void)
{
	size_t have = in.end - in.start;

	return have >= FRAME_HEADER ? FRAME_HEADER + FRAME_DATA_MAX : IN_STEP;
}

static void
on_input(void *arg, short revents)
{
	size_t step = in_wanted();
	ssize_t n;

	(void)arg;
	(void)revents;
	n = read(0, mem_queue_reserve(&in, step), step);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		in_ended = 1;
		want_input();
		return;
	}
	in.end += (size_t)n;
	take_frames();
	want_input();
}

static void
on_output(void *arg, short revents)
{
	(void)arg;
	(void)revents;
	stream_flush();
}

void
stream_init(void (*on_frame)(const struct frame *))
{
	frame_handler = on_frame;
	fcntl(0, F_SETFL, fcntl(0, F_GETFL) | O_NONBLOCK);
	fcntl(1, F_SETFL, fcntl(1, F_GETFL) | O_NONBLOCK);
	loop_watch(&in_watch, 0, on_input, NULL);
	loop_watch(&out_watch, 1, on_output, NULL);
	in_watch.events = POLLIN;
}

void
stream_send(uint8_t type, uint16_t channel, const void *head, size_t head_len, const void *tail,
    size_t tail_len)
{
	uint8_t *p = mem_queue_reserve(&out, FRAME_HEADER + head_len + tail_len);

	if (head_len > 0)
		memcpy(p + FRAME_HEADER, head, head_len);
	if (tail_len > 0)
		memcpy(p + FRAME_HEADER + head_len, tail, tail_len);
	frame_header(p, type, channel, p + FRAME_HEADER, (uint32_t)(head_len + tail_len));
	out.end += FRAME_HEADER + head_len + tail_len;
}

int
stream_room(void)
{
	return out.end - out.start <= OUT_HIGH;
}

uint8_t *
stream_reserve(void)
{
	return mem_queue_reserve(&out, FRAME_HEADER + FRAME_DATA_MAX) + FRAME_HEADER;
}

void
stream_commit(uint8_t type, uint16_t channel, size_t len)
{
	uint8_t *p = out.p + out.end;

	frame_header(p, type, channel, p + FRAME_HEADER, (uint32_t)len);
	out.end += FRAME_HEADER + len;
}

/* When there is room for more than two pieces, neither side waits for the other so often. Not for
 * ever, since the pages of all pipes of a user are counted. A stream that is no pipe stays as it
 * is.
 */
static void
out_resize(int size)
{
	if (size == out_pipe)
		return;
	if (fcntl(1, F_SETPIPE_SZ, size) >= 0 || errno != EBUSY)
		out_pipe = size;
}

int
stream_flush(void)
{
	size_t due = out.end - out.start;
	ssize_t n;

	if (due > OUT_PIECE)
		due -= due % OUT_PIECE;
	out_watch.events = 0;
	while (due > 0) {
		n = write(1, out.p + out.start, due);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			out_was_full = 1;
			out_resize(OUT_PIPE_BUSY);
			out_watch.events = POLLOUT;
			break;
		}
		if (n < 0) {
			stream_drop();
			break;
		}
		out.start += (size_t)n;
		due -= (size_t)n;
	}
	want_input();
	return out_watch.events == 0 && out.start < out.end;
}

void
stream_drop(void)
{
	out.start = out.end = 0;
}

void
stream_tick(void)
{
	if (in.start == in.end && in.cap > IN_STEP)
		mem_queue_free(&in);
	if (out.start == out.end && out.cap > IN_STEP)
		mem_queue_free(&out);
	if (!out_was_full)
		out_resize(OUT_PIPE);
	out_was_full = 0;
	in_ended = 0;
	want_input();
}
