// link: sessiond/args.o sessiond/buf.o sessiond/channel.o sessiond/data.o sessiond/guest.o
// link: sessiond/dial.o
// link: sessiond/job.o sessiond/job_exec.o sessiond/job_file.o sessiond/manager.o sessiond/pack.o
// link: sessiond/session.o sessiond/sha256.o sessiond/stdcopy.o sessiond/text.o
// link: tests/fuzz/session_harness.o -l:libcrypto.a -lzstd
/*
 * What an HTTP side that was taken over can write on data sockets. First byte: which kind of job;
 * second: in how many bytes at a time the rest arrives.
 */
#include <sys/socket.h>

#include <stdlib.h>
#include <string.h>

#include "common/frame.h"
#include "tests/fuzz/session_harness.h"

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

static void
say_started(struct harness *h, uint16_t channel)
{
	uint8_t frame[FRAME_HEADER];

	frame_header(frame, G_STARTED, channel, NULL, 0);
	if (guest_feed(&h->s, frame, sizeof(frame)) != NULL)
		abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	static struct harness h;
	size_t at, step;
	int job, kind;

	if (n < 3)
		return 0;
	kind = p[0] % 4;
	step = (size_t)p[1] + 1;
	p += 2;
	n -= 2;
	harness_open(&h, GUEST_RAW);
	if (kind < 2)
		job = harness_exec(&h, 1, kind);
	else
		job = harness_file(&h, kind == 2 ? JOB_WRITE : JOB_ARCHIVE_PUT);
	say_started(&h, kind < 2 ? 56 : 64);
	for (at = 0; at < n; at += step) {
		if (step > n - at)
			step = n - at;
		if (send(h.peers[job], p + at, step, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)step)
			break;
		harness_turn(&h, 1);
	}
	shutdown(h.peers[job], SHUT_RDWR);
	harness_turn(&h, 1);
	harness_close(&h);
	return 0;
}
