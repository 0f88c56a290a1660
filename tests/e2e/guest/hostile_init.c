/*
 * A PID 1 that does not keep to the guest protocol, to show what the server makes of it. It answers
 * HELLO as it should (unless the image has a file /mode that says otherwise); then the first
 * argument of a command, or the path of a file request, names the breach.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <fcntl.h>

#include "common/frame.h"
#include "proto/data.h"
#include "proto/guest.h"

static uint8_t in[1 << 20];
static size_t nin;
static char args[GUEST_ARGS_MAX];
static size_t nargs;
static char mode_file[64];
static uint16_t endless; /* a channel that says something for ever, */
static uint8_t endless_type;
static uint8_t endless_block[32768]; /* namely this */
static char snapshot_file[128]; /* what the next snapshot holds, instead of something endless */
static int snapshot_fd = -1;
static int64_t snapshot_bytes;
static enum { MANNERS_GOOD, MANNERS_GARBAGE, MANNERS_VERSION, MANNERS_MUTE } manners;

static void
put_bytes(const void *data, size_t n)
{
	const char *p = data;

	while (n > 0) {
		ssize_t w = write(1, p, n);

		if (w <= 0)
			_exit(1);
		p += w;
		n -= (size_t)w;
	}
}

static void
put(uint8_t type, uint16_t channel, const void *data, uint32_t len)
{
	uint8_t head[FRAME_HEADER];

	frame_header(head, type, channel, data, len);
	put_bytes(head, sizeof(head));
	put_bytes(data, len);
}

static void
put_exit(uint16_t channel, int32_t code)
{
	struct g_exit e = {.exit_code = code, .peak_memory_bytes = -1};

	put(G_EXIT, channel, &e, sizeof(e));
}

static void
flood(uint16_t channel, uint8_t type, size_t total)
{
	static uint8_t block[32768];

	memset(block, 'x', sizeof(block));
	for (size_t sent = 0; sent < total; sent += sizeof(block))
		put(type, channel, block, sizeof(block));
}

/* For ever, but no more than there is credit for. */
static void
for_ever(uint16_t channel, uint8_t type, const void *unit, size_t unit_len)
{
	for (size_t at = 0; at < sizeof(endless_block); at += unit_len)
		memcpy(endless_block + at, unit, unit_len);
	endless = channel;
	endless_type = type;
	for (size_t sent = 0; sent < GUEST_WINDOW; sent += sizeof(endless_block))
		put(type, channel, endless_block, sizeof(endless_block));
}

static void
endless_more(uint16_t channel, size_t n)
{
	static size_t credit;

	for (credit += n; credit >= sizeof(endless_block); credit -= sizeof(endless_block))
		put(endless_type, channel, endless_block, sizeof(endless_block));
}

/* One byte, and one byte, and one byte. */
static void
drip(uint16_t channel, uint8_t type)
{
	for (;;) {
		put(type, channel, "x", 1);
		usleep(200000);
	}
}

/* Breaches that any request can be answered with. Returns 0 when there is none of that name. */
static int
breach(const char *mode, uint16_t ch)
{
	uint8_t head[FRAME_HEADER], big[8] = {0xff, 0xff, 0xff, 0xff};
	struct g_hello ack = {.nonce = 1, .version = 77};
	struct g_stat stat = {.free_bytes = INT64_MIN, .free_inodes = -5};

	if (strcmp(mode, "magic") == 0) {
		put_bytes("this is no frame, and never was", 31);
	} else if (strcmp(mode, "checksum") == 0) {
		frame_header(head, G_STDOUT, ch, "abc", 3);
		put_bytes(head, sizeof(head));
		put_bytes("abd", 3);
	} else if (strcmp(mode, "length") == 0) {
		frame_header(head, G_STDOUT, ch, "", 0);
		memset(head + 8, 0xff, 4);
		put_bytes(head, sizeof(head));
	} else if (strcmp(mode, "type") == 0) {
		put(200, ch, "x", 1);
	} else if (strcmp(mode, "direction") == 0) {
		put(G_EXEC, ch, "x", 1);
	} else if (strcmp(mode, "strange-channel") == 0) {
		put(G_STDOUT, 40, "x", 1);
	} else if (strcmp(mode, "high-channel") == 0) {
		put(G_STDOUT, 60000, "x", 1);
	} else if (strcmp(mode, "channel-zero") == 0) {
		put(G_STDOUT, 0, "x", 1);
	} else if (strcmp(mode, "window") == 0) {
		flood(ch, G_STDOUT, 2 * GUEST_WINDOW);
	} else if (strcmp(mode, "credit") == 0) {
		for (int i = 0; i < 100; i++)
			put(G_WINDOW, ch, big, 8);
	} else if (strcmp(mode, "short-exit") == 0) {
		put(G_EXIT, ch, "abcd", 4);
	} else if (strcmp(mode, "exit-code") == 0) {
		put_exit(ch, 99999);
	} else if (strcmp(mode, "hello-again") == 0) {
		put(G_HELLO_ACK, 0, &ack, sizeof(ack));
	} else if (strcmp(mode, "stat") == 0) {
		put(G_STAT, 0, &stat, sizeof(stat));
		put(G_STAT, 0, "abc", 3);
	} else if (strcmp(mode, "stat-flood") == 0) {
		for (;;)
			put(G_STAT, 0, &stat, sizeof(stat));
	} else if (strcmp(mode, "end") == 0) {
		put(G_END, ch, "\xff\xff\xff\xff\xff\xff\xff\xff\xfe", 9);
	} else if (strcmp(mode, "meta") == 0) {
		flood(ch, G_META, 32768);
	} else if (strcmp(mode, "entry") == 0) {
		flood(ch, G_ENTRY, 32768);
	} else if (strcmp(mode, "die") == 0) {
		_exit(3);
	} else if (strcmp(mode, "silence") == 0) {
		return 1;
	} else {
		return 0;
	}
	return 1;
}

/* Commands that are answered as they should be, and change what comes later. */
static void
prepare(const char *mode)
{
	struct g_stat stat = {0};

	if (strcmp(mode, "then-garbage") == 0)
		manners = MANNERS_GARBAGE;
	else if (strcmp(mode, "then-version") == 0)
		manners = MANNERS_VERSION;
	else if (strcmp(mode, "then-mute") == 0)
		manners = MANNERS_MUTE;
	else if (strcmp(mode, "disk-none") == 0)
		put(G_STAT, 0, &stat, sizeof(stat));
	else if (strcmp(mode, "disk-max") == 0) {
		stat.free_bytes = stat.free_inodes = INT64_MAX;
		put(G_STAT, 0, &stat, sizeof(stat));
	} else if (strncmp(mode, "snap=", 5) == 0)
		snprintf(snapshot_file, sizeof(snapshot_file), "%.100s", mode + 5);
}

static void
on_exec(uint16_t ch)
{
	const char *mode = args + 8; /* argv[0], behind {argc, envc} */

	nargs = 0;
	if (strcmp(mode, "twice") == 0) {
		put_exit(ch, 0);
		put_exit(ch, 0);
	} else if (strcmp(mode, "after") == 0) {
		put_exit(ch, 0);
		put(G_STDOUT, ch, "late", 4);
	} else if (strcmp(mode, "endless") == 0) {
		put(G_STARTED, ch, "", 0);
		for_ever(ch, G_STDOUT, "abcdefgh", 8);
	} else if (strcmp(mode, "drip") == 0) {
		put(G_STARTED, ch, "", 0);
		drip(ch, G_STDERR);
	} else if (strcmp(mode, "deaf") == 0) {
		put(G_STARTED, ch, "", 0);
		for (;;)
			pause();
	} else if (!breach(mode, ch)) {
		prepare(mode);
		put(G_STARTED, ch, "", 0);
		put(G_STDOUT, ch, mode, (uint32_t)strlen(mode));
		put_exit(ch, 0);
	}
}

static void
put_end(uint16_t ch, uint32_t status, const char *text)
{
	struct {
		struct g_end end;
		char text[64];
	} e = {.end = {.status = status}};

	snprintf(e.text, sizeof(e.text), "%s", text);
	put(G_END, ch, &e, sizeof(e.end) + (uint32_t)strlen(text));
}

/* n bytes more of the file that is to be the snapshot. */
static void
snapshot_more(uint16_t ch, size_t n)
{
	static uint8_t block[32768];
	struct g_end end = {.status = 200};
	ssize_t got;

	for (; n > 0; n -= (size_t)got) {
		got = read(snapshot_fd, block, n < sizeof(block) ? n : sizeof(block));
		if (got <= 0) {
			close(snapshot_fd);
			snapshot_fd = -1;
			end.bytes = snapshot_bytes;
			put(G_END, ch, &end, sizeof(end));
			return;
		}
		put(G_DATA, ch, block, (uint32_t)got);
		snapshot_bytes += got;
	}
}

static void
on_snapshot(uint16_t ch)
{
	put(G_STARTED, ch, "", 0);
	snapshot_bytes = 0;
	if (*snapshot_file == '\0') {
		for_ever(ch, G_DATA, "xxxxxxxx", 8);
		return;
	}
	endless = 0;
	snapshot_fd = open(snapshot_file, O_RDONLY);
	snapshot_more(ch, GUEST_WINDOW);
}

/* Names that are allowed, and look odd elsewhere. */
static void
put_names(uint16_t ch)
{
	static const char *const names[] = {"\r\nSet-Cookie: a=b", "\"],\"x\":[\"",
	    "\xff\xfe\xc0\xaf", "\x1b[2J",
	    "\xe2\x80\xae"
	    "abc",
	    "\\u0000"};
	uint8_t buf[sizeof(struct g_entry) + 256];
	struct g_entry e = {.size = INT64_MAX, .mtime_ns = INT64_MIN, .mode = 07777};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		memset(buf, 0, sizeof(buf));
		e.name_len = (uint16_t)strlen(names[i]);
		memcpy(buf, &e, sizeof(e));
		memcpy(buf + sizeof(e), names[i], e.name_len);
		put(G_ENTRY, ch, buf, (uint32_t)(sizeof(e) + (e.name_len + 7u) / 8 * 8));
	}
	put_end(ch, 200, "");
}

/* Answers that keep to the protocol, word by word, and are no answers. Returns as breach(). */
static int
mischief(uint8_t type, uint16_t ch, const char *mode)
{
	struct g_meta meta = {
	    .size = 1000000, .length = 1000000, .mode = 0644, .type = FILE_REGULAR};
	struct g_entry entry = {.name_len = 8};
	uint8_t unit[sizeof(entry) + 8] = "";

	if (strcmp(mode, "drip") == 0 && type == G_READ) {
		put(G_META, ch, &meta, sizeof(meta));
		drip(ch, G_DATA);
	} else if (strcmp(mode, "far") == 0 && type == G_READ) {
		meta.size = INT64_MAX;
		meta.first = INT64_MAX - 10;
		meta.length = 10;
		put(G_META, ch, &meta, sizeof(meta));
		put(G_DATA, ch, "0123456789", 10);
		put(G_END, ch, &(struct g_end){.status = 200, .bytes = 10}, sizeof(struct g_end));
	} else if (strcmp(mode, "cut") == 0 && type == G_READ) {
		meta.size = meta.length = 10;
		put(G_META, ch, &meta, sizeof(meta));
		put(G_DATA, ch, "012345678", 9);
		put(G_END, ch, &(struct g_end){.status = 200, .bytes = 9}, sizeof(struct g_end));
	} else if (strcmp(mode, "names") == 0 && type == G_LIST) {
		put_names(ch);
	} else if (strcmp(mode, "endless") == 0 && type == G_LIST) {
		memcpy(unit, &entry, sizeof(entry));
		memset(unit + sizeof(entry), 'n', 8);
		for_ever(ch, G_ENTRY, unit, sizeof(unit));
	} else if (strcmp(mode, "endless") == 0 && type == G_EXPORT) {
		put(G_STARTED, ch, "", 0);
		for_ever(ch, G_DATA, "xxxxxxxx", 8);
	} else if (strcmp(mode, "unread") == 0 && (type == G_IMPORT || type == G_WRITE)) {
		put(G_STARTED, ch, "", 0);
		put_end(ch, 200, "");
	} else {
		return 0;
	}
	return 1;
}

/* Paths: "<mode>" behind /workspace/. */
static void
on_file(uint8_t type, uint16_t ch, const uint8_t *data, uint32_t len)
{
	struct g_meta meta = {.size = 10, .length = 10, .mode = 0100644, .type = FILE_REGULAR};
	char path[256] = "";
	const char *mode;

	if (len > sizeof(struct g_file))
		snprintf(path, sizeof(path), "%.*s", (int)(len - sizeof(struct g_file)),
		    data + sizeof(struct g_file));
	mode = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	if (strcmp(mode, "more") == 0) {
		put(G_META, ch, &meta, sizeof(meta));
		put(G_DATA, ch, "twenty bytes of data", 20);
		put_end(ch, 200, "");
	} else if (strcmp(mode, "less") == 0) {
		put(G_META, ch, &meta, sizeof(meta));
		put(G_DATA, ch, "four", 4);
		put_end(ch, 200, "");
	} else if (strcmp(mode, "negative") == 0) {
		meta.size = meta.length = -1;
		put(G_META, ch, &meta, sizeof(meta));
	} else if (strcmp(mode, "status") == 0) {
		put_end(ch, 31337, "\xff\xfe");
	} else if (type == G_EXPORT && strcmp(mode, "workspace") == 0) {
		on_snapshot(ch);
	} else if (!mischief(type, ch, mode) && !breach(mode, ch)) {
		put_end(ch, 404, "no such file");
	}
}

static void
on_hello(const struct g_hello *h)
{
	struct g_hello ack = *h;

	if (manners == MANNERS_MUTE)
		return;
	if (manners == MANNERS_VERSION)
		ack.version = 4711;
	endless = 0;
	if (strncmp(mode_file, "nonce", 5) == 0)
		ack.nonce++;
	else if (strncmp(mode_file, "version", 7) == 0)
		ack.version = 4711;
	else if (strncmp(mode_file, "mute", 4) == 0)
		return;
	else if (strncmp(mode_file, "babble", 6) == 0)
		for (;;)
			put_bytes("babble babble babble babble ASf1", 32);
	put(G_HELLO_ACK, 0, &ack, sizeof(ack));
	if (manners == MANNERS_GARBAGE)
		put_bytes("this is no frame, and never was", 31);
}

static void
on_frame(const struct frame *f)
{
	const struct g_number *n = (const void *)f->data;

	switch (f->type) {
	case G_WINDOW:
		if (f->len < sizeof(*n) || n->n > GUEST_WINDOW)
			break;
		if (snapshot_fd != -1)
			snapshot_more(f->channel, n->n);
		else if (f->channel == endless)
			endless_more(f->channel, n->n);
		break;
	case G_HELLO:
		if (f->len >= sizeof(struct g_hello))
			on_hello((const void *)f->data);
		break;
	case G_EXEC_ARGS:
		if (nargs + f->len < sizeof(args)) {
			memcpy(args + nargs, f->data, f->len);
			nargs += f->len;
		}
		break;
	case G_EXEC:
		on_exec(f->channel);
		break;
	case G_READ:
	case G_WRITE:
	case G_LIST:
	case G_EXPORT:
	case G_IMPORT:
		on_file(f->type, f->channel, f->data, f->len);
		break;
	case G_CLOSE:
	case G_KILL:
		put_end(f->channel, 409, "called off");
		break;
	default:
		break;
	}
}

int
main(void)
{
	struct frame f;
	ssize_t n;
	int fd = open("/mode", O_RDONLY);

	if (fd != -1 && read(fd, mode_file, sizeof(mode_file) - 1) == -1)
		return 1;
	while ((n = read(0, in + nin, sizeof(in) - nin)) > 0) {
		size_t at = 0;

		nin += (size_t)n;
		while (at < nin) {
			int64_t got = frame_parse(in + at, nin - at, &f);

			if (got == 0)
				break;
			if (got > 0)
				on_frame(&f);
			at += got > 0 ? (size_t)got : frame_resync(in + at, nin - at);
		}
		memmove(in, in + at, nin - at);
		nin -= at;
	}
	for (;;)
		pause();
}
