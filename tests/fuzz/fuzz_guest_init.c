/*
 * sandbox-init against what could arrive: the argument block, file requests, names in a tar, texts
 * of the kernel, and the table of channels with servers that do as the input says. The first byte
 * chooses.
 */
// link: sandbox-init/args.o sandbox-init/request.o sandbox-init/names.o
// link: sandbox-init/cgroup.o sandbox-init/procs.o sandbox-init/mem.o sandbox-init/channel.o
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "common/frame.h"
#include "proto/guest.h"
#include "sandbox-init/args.h"
#include "sandbox-init/cgroup.h"
#include "sandbox-init/channel.h"
#include "sandbox-init/exec.h"
#include "sandbox-init/file.h"
#include "sandbox-init/freeze.h"
#include "sandbox-init/names.h"
#include "sandbox-init/procs.h"
#include "sandbox-init/request.h"
#include "sandbox-init/stream.h"
#include "sandbox-init/transfer.h"

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

#define CHECK(x)                 \
	do {                     \
		if (!(x))        \
			abort(); \
	} while (0)

/* The rest of the program, as far as the channels see it. */

static const uint8_t *script;
static size_t script_len;
static int frozen, open_channels[GUEST_CHANNELS + 1];
static uint8_t out_buf[FRAME_HEADER + FRAME_DATA_MAX];

static uint8_t
choice(void)
{
	if (script_len == 0)
		return 0;
	script_len--;
	return *script++;
}

void
stream_send(uint8_t type, uint16_t channel, const void *head, size_t head_len, const void *tail,
    size_t tail_len)
{
	CHECK(channel >= 1 && channel <= GUEST_CHANNELS);
	CHECK(head_len + tail_len <= FRAME_DATA_MAX);
	CHECK(head_len == 0 || head != NULL);
	if (tail_len > 0)
		CHECK(memchr(tail, '\n', tail_len) == NULL);
	if (type == G_EXIT || type == G_END)
		open_channels[channel] = 0;
}

int
stream_room(void)
{
	return 1;
}

uint8_t *
stream_reserve(void)
{
	return out_buf + FRAME_HEADER;
}

void
stream_commit(uint8_t type, uint16_t channel, size_t len)
{
	CHECK(type >= G_STDOUT && channel <= GUEST_CHANNELS && len <= FRAME_DATA_MAX);
}

int
freeze_active(void)
{
	return frozen;
}

int
transfer_cleaning(void)
{
	return 0;
}

int
exec_must_wait(int kill_others)
{
	return kill_others && choice() % 4 == 0;
}

/* Each server does what the next byte says: keep on, give credit back, send, end. */
static void
act(struct channel *ch, size_t len)
{
	struct g_exit x = {0};
	size_t n;

	switch (choice() % 6) {
	case 0:
		ch->ops = NULL;
		channel_end(ch, 400, 1, "%s\n\xff", "reason");
		return;
	case 1:
		ch->ops = NULL;
		channel_exit(ch, &x);
		return;
	case 2:
		n = channel_allows(ch);
		CHECK(n <= ch->out_credit && n <= FRAME_DATA_MAX);
		channel_put(ch, G_STDOUT, n);
		break;
	default:
		channel_consumed(ch, len);
	}
	CHECK(ch->in_credit <= GUEST_WINDOW && ch->out_credit <= GUEST_WINDOW);
	CHECK(ch->in_unreturned <= GUEST_WINDOW);
}

static void
on_data(struct channel *ch, const uint8_t *data, size_t len)
{
	CHECK(data != NULL || len == 0);
	act(ch, len);
}

static void
on_data_end(struct channel *ch, int64_t bytes)
{
	(void)bytes;
	act(ch, 0);
}

static void
on_signal(struct channel *ch, uint32_t n)
{
	(void)n;
	act(ch, 0);
}

static void
on_word(struct channel *ch)
{
	act(ch, 0);
}

static void
on_close(struct channel *ch)
{
	ch->ops = NULL;
	channel_end(ch, 409, 0, "%s", "");
}

static void
on_drop(struct channel *ch)
{
	ch->ops = NULL;
}

static const struct channel_ops ops = {
    on_data, on_data_end, on_signal, on_word, on_close, on_drop, on_word, NULL};

static void
serve(struct channel *ch)
{
	CHECK(ch->ops == NULL && open_channels[ch->id] == 0);
	open_channels[ch->id] = 1;
	ch->ops = &ops;
	act(ch, 0);
}

void
exec_args(struct channel *ch, const uint8_t *data, size_t len)
{
	(void)data;
	free(ch->args);
	ch->args = malloc(len + 1);
	ch->args_len = (uint32_t)len;
}

void
exec_open(struct channel *ch, const uint8_t *data, size_t len)
{
	(void)data;
	(void)len;
	free(ch->args);
	ch->args = NULL;
	serve(ch);
}

void
file_open(struct channel *ch, uint8_t type, const uint8_t *data, size_t len)
{
	(void)type;
	(void)data;
	(void)len;
	serve(ch);
}

void
transfer_open(struct channel *ch, uint8_t type, const uint8_t *data, size_t len)
{
	file_open(ch, type, data, len);
}

int
file_is_write(const struct channel *ch)
{
	return ch->ops != NULL;
}

/* Frames {type, channel, length / 16}, with the bytes that follow as payload, and with events of
 * our own between. */
static void
fuzz_channels(const uint8_t *p, size_t n)
{
	static uint8_t payload[FRAME_DATA_MAX];
	struct frame f = {0};
	size_t have;

	frozen = 0;
	memset(open_channels, 0, sizeof(open_channels));
	while (n >= 4) {
		script = p + 4;
		script_len = n - 4 < 8 ? n - 4 : 8;
		f.type = p[0];
		f.channel = p[1];
		f.len = (uint32_t)p[2] * 257;
		have = script_len < f.len ? script_len : f.len;
		memcpy(payload, script, have);
		f.data = payload;
		switch (p[3] % 8) {
		case 0:
			frozen = 1;
			break;
		case 1:
			frozen = 0;
			channel_release();
			break;
		case 2:
			channel_reset();
			memset(open_channels, 0, sizeof(open_channels));
			break;
		default:
			break;
		}
		channel_frame(&f);
		p += 4 + script_len;
		n -= 4 + (n - 4 < 8 ? n - 4 : 8);
		script_len = 0;
	}
	channel_reset();
}

static void
fuzz_frames(const uint8_t *p, size_t n)
{
	struct frame f;
	size_t at = 0;
	int64_t r;

	while (at < n) {
		r = frame_parse(p + at, n - at, &f);
		CHECK(r <= (int64_t)(n - at));
		if (r == 0)
			break;
		if (r > 0)
			CHECK(f.data >= p && f.data + f.len <= p + n);
		at += r > 0 ? (size_t)r : frame_resync(p + at, n - at);
	}
	CHECK(at <= n);
}

static void
fuzz_args(const uint8_t *p, size_t n)
{
	uint8_t *block = malloc(n + 1);
	char file[64];
	const char *path;
	struct args a;
	size_t i, bytes = 8;

	memcpy(block, p, n);
	if (args_parse(block, n, &a) == 0) {
		CHECK(a.argv[0] != NULL);
		for (i = 0; a.argv[i] != NULL; i++)
			bytes += strlen(a.argv[i]) + 1;
		for (i = 0; a.envp[i] != NULL; i++)
			bytes += strlen(a.envp[i]) + 1;
		CHECK(bytes + strlen(a.workdir) + 1 == n);
		for (path = a.path; args_candidate(&path, a.argv[0], file, sizeof(file)) != 0;)
			;
		free(a.argv);
	}
	free(block);
}

static void
fuzz_request(const uint8_t *p, size_t n)
{
	int64_t first = 0, length = 0, size;
	struct request r;

	if (request_parse(p, n, &r) < 0)
		return;
	CHECK(r.path[0] == '/' && strlen(r.path) == r.f.path_len);
	size = r.f.size < 0 ? 0 : r.f.size;
	if (request_range(&r.f, size, &first, &length) == 200)
		CHECK(first >= 0 && length >= 0 && first <= size && length <= size - first &&
		      (r.f.max < 0 || length <= r.f.max));
}

static void
fuzz_text(const uint8_t *p, size_t n, int which)
{
	char *text = malloc(n + 1), clean[64];
	pid_t ppid;
	char state;

	memcpy(text, p, n);
	text[n] = '\0';
	if (which == 0 && names_clean(text, clean, sizeof(clean)) == NULL) {
		CHECK(clean[0] != '/' && strlen(clean) < sizeof(clean));
		CHECK(strstr(clean, "//") == NULL && strstr(clean, "/../") == NULL);
		names_leads_out(n % 5 ? (int)(n % 5) : -1, clean, text);
	} else if (which == 1) {
		cgroup_parse(text);
		procs_parse_stat(text, &state, &ppid);
	} else if (which == 2) {
		channel_clean_text(text);
		CHECK(strlen(text) <= n);
	}
	free(text);
}

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	if (n == 0)
		return 0;
	switch (p[0] % 7) {
	case 0:
		fuzz_args(p + 1, n - 1);
		break;
	case 1:
		fuzz_request(p + 1, n - 1);
		break;
	case 2:
		fuzz_channels(p + 1, n - 1);
		break;
	case 3:
		fuzz_frames(p + 1, n - 1);
		break;
	default:
		fuzz_text(p + 1, n - 1, p[0] % 7 - 4);
	}
	return 0;
}
