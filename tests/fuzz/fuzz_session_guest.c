// link: sessiond/args.o sessiond/buf.o sessiond/channel.o sessiond/data.o sessiond/guest.o
// link: sessiond/dial.o
// link: sessiond/job.o sessiond/job_exec.o sessiond/job_file.o sessiond/manager.o sessiond/pack.o
// link: sessiond/session.o sessiond/sha256.o sessiond/stdcopy.o sessiond/text.o
// link: tests/fuzz/session_harness.o -l:libcrypto.a -lzstd
/*
 * Everything that a hostile sandbox can say to a session. First byte: 0 = the rest is the stream as
 * it comes, 1 = the same in the engine's framing, else the rest is {type, channel, u16 length,
 * data} and becomes valid frames.
 */
#include <stdlib.h>
#include <string.h>

#include "common/frame.h"
#include "sessiond/dial.h"
#include "tests/fuzz/session_harness.h"

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

static const char *
feed_frames(struct harness *h, const uint8_t *p, size_t n)
{
	static uint8_t frame[FRAME_HEADER + FRAME_DATA_MAX];
	const char *why = NULL;
	size_t len;

	while (n >= 4 && why == NULL) {
		len = (size_t)(p[2] | p[3] << 8);
		if (len > n - 4)
			len = n - 4;
		memcpy(frame + FRAME_HEADER, p + 4, len);
		frame_header(frame, p[0], p[1], p + 4, (uint32_t)len);
		why = guest_feed(&h->s, frame, FRAME_HEADER + len);
		p += 4 + len;
		n -= 4 + len;
		harness_turn(h, 1);
	}
	return why;
}

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	static struct harness h;
	const char *why;

	if (n == 0)
		return 0;
	harness_open(&h, p[0] == 1 ? GUEST_STDCOPY : GUEST_RAW);
	h.s.egress = 1; /* channels from 65 on are its own to open */
	dial_announce(&h.s);
	harness_exec(&h, 1, 0);     /* channel 56 */
	harness_exec(&h, 0, 1);     /* 55 */
	harness_file(&h, JOB_READ); /* 64 … */
	harness_file(&h, JOB_WRITE);
	harness_file(&h, JOB_LIST);
	harness_file(&h, JOB_ARCHIVE_GET);
	harness_file(&h, JOB_ARCHIVE_PUT);
	harness_pack(&h, JOB_SNAPSHOT);
	harness_pack(&h, JOB_RESTORE);
	harness_file(&h, JOB_REMOVE); /* 57 */
	why = p[0] <= 1 ? guest_feed(&h.s, p + 1, n - 1) : feed_frames(&h, p + 1, n - 1);
	if (why == NULL)
		harness_turn(&h, 1);
	harness_close(&h);
	return 0;
}
