/* The JSON writer (json_out.h): escaping with UTF-8 repair, incremental. */
#include <endian.h>
#include <event2/buffer.h>
#include <string.h>

#include "apid/json_out.h"
#include "common/base64.h"
#include "common/log.h"

#define REPLACEMENT "\xef\xbf\xbd"

#define SINK_MAX 16384
#define SINK_MIN 512

/* Writes into the evbuffer's own memory: adding byte by byte is slow, and so is copying twice. */
struct sink {
	struct evbuffer *out;
	struct evbuffer_iovec room;
	size_t n; /* bytes used of it */
	size_t total;
	size_t want; /* how much to reserve */
};

static void
sink_flush(struct sink *s)
{
	if (s->n > 0) {
		s->room.iov_len = s->n;
		evbuffer_commit_space(s->out, &s->room, 1);
	}
	s->total += s->n;
	s->n = s->room.iov_len = 0;
}

/* Where so many bytes may be written; n is at most SINK_MIN. */
static uint8_t *
sink_room(struct sink *s, size_t n)
{
	if (s->room.iov_len - s->n < n) {
		sink_flush(s);
		if (evbuffer_reserve_space(s->out, (ev_ssize_t)s->want, &s->room, 1) != 1)
			fatal("evbuffer");
	}
	return (uint8_t *)s->room.iov_base + s->n;
}

static void
sink_add(struct sink *s, const void *p, size_t n)
{
	memcpy(sink_room(s, n), p, n);
	s->n += n;
}

static void
add_ascii(struct sink *s, uint8_t ch)
{
	static const char digits[] = "0123456789abcdef";
	char u[6] = {'\\', 'u', '0', '0', digits[ch >> 4], digits[ch & 15]};

	switch (ch) {
	case '"':
	case '\\':
		u[1] = (char)ch;
		sink_add(s, u, 2);
		return;
	case '\n':
		sink_add(s, "\\n", 2);
		return;
	case '\r':
		sink_add(s, "\\r", 2);
		return;
	case '\t':
		sink_add(s, "\\t", 2);
		return;
	default:
		if (ch < 32 || ch == 127)
			sink_add(s, u, 6);
		else
			sink_add(s, &ch, 1);
	}
}

/* How long the character is that begins with this byte; 0 when none does. */
static size_t
sequence_length(uint8_t first)
{
	if (first < 0x80)
		return 1;
	if (first >= 0xc2 && first <= 0xdf)
		return 2;
	if (first >= 0xe0 && first <= 0xef)
		return 3;
	if (first >= 0xf0 && first <= 0xf4)
		return 4;
	return 0;
}

/* Whether ch may be byte number i (from 1) of the character that begins with first. */
static int
may_follow(uint8_t first, size_t i, uint8_t ch)
{
	if (i == 1) {
		if (first == 0xe0)
			return ch >= 0xa0 && ch <= 0xbf;
		if (first == 0xed)
			return ch >= 0x80 && ch <= 0x9f;
		if (first == 0xf0)
			return ch >= 0x90 && ch <= 0xbf;
		if (first == 0xf4)
			return ch >= 0x80 && ch <= 0x8f;
	}
	return ch >= 0x80 && ch <= 0xbf;
}

static void
add_byte(struct sink *s, struct utf8 *u, uint8_t ch)
{
	if (u->n > 0) {
		if (may_follow(u->have[0], u->n, ch)) {
			u->have[u->n++] = ch;
			if (u->n == sequence_length(u->have[0])) {
				sink_add(s, u->have, u->n);
				u->n = 0;
			}
			return;
		}
		sink_add(s, REPLACEMENT, 3);
		u->n = 0;
	}
	switch (sequence_length(ch)) {
	case 0:
		sink_add(s, REPLACEMENT, 3);
		break;
	case 1:
		add_ascii(s, ch);
		break;
	default:
		u->have[0] = ch;
		u->n = 1;
	}
}

static int
is_plain(uint8_t ch)
{
	return ch >= 32 && ch < 127 && ch != '"' && ch != '\\';
}

/* Bytes that the processor looks at together. */
typedef uint8_t block __attribute__((vector_size(16)));

/* How many bytes at the beginning of a block are plain. */
static size_t
plain_bytes(block v)
{
	block special = (block)((v < 32) | (v >= 127) | (v == '"') | (v == '\\'));
	uint64_t half[2];

	memcpy(half, &special, sizeof(half));
	if (half[0] != 0)
		return (size_t)__builtin_ctzll(le64toh(half[0])) / 8;
	if (half[1] != 0)
		return sizeof(half[0]) + (size_t)__builtin_ctzll(le64toh(half[1])) / 8;
	return sizeof(v);
}

/* Copies bytes that stand for themselves, a block at a time. Returns 0 only when the first one does
 * not. */
static size_t
copy_plain(struct sink *s, const uint8_t *p, size_t n)
{
	uint8_t *to = sink_room(s, sizeof(block));
	size_t i, plain;
	block v;

	if (n > s->room.iov_len - s->n)
		n = s->room.iov_len - s->n;
	for (i = 0; n - i >= sizeof(v); i += sizeof(v)) {
		memcpy(&v, p + i, sizeof(v));
		memcpy(to + i, &v, sizeof(v));
		if ((plain = plain_bytes(v)) < sizeof(v)) {
			i += plain;
			s->n += i;
			return i;
		}
	}
	for (; i < n && is_plain(p[i]); i++)
		to[i] = p[i];
	s->n += i;
	return i;
}

size_t
json_escape(struct evbuffer *out, struct utf8 *u, const void *data, size_t n)
{
	struct sink s = {.out = out};
	const uint8_t *p = data;
	size_t i = 0, run;

	s.want = n < SINK_MIN ? SINK_MIN : n < SINK_MAX ? n : SINK_MAX;
	while (i < n) {
		run = u->n == 0 ? copy_plain(&s, p + i, n - i) : 0;
		if (run == 0)
			add_byte(&s, u, p[i++]);
		i += run;
	}
	sink_flush(&s);
	return s.total;
}

size_t
json_escape_end(struct evbuffer *out, struct utf8 *u)
{
	if (u->n == 0)
		return 0;
	u->n = 0;
	evbuffer_add(out, REPLACEMENT, 3);
	return 3;
}

void
out_string(struct evbuffer *out, const void *p, size_t n)
{
	struct utf8 u = {0};

	evbuffer_add(out, "\"", 1);
	json_escape(out, &u, p, n);
	json_escape_end(out, &u);
	evbuffer_add(out, "\"", 1);
}

void
out_cstring(struct evbuffer *out, const char *text)
{
	out_string(out, text, strlen(text));
}

size_t
out_base64(struct evbuffer *out, struct base64 *b, const void *data, size_t n)
{
	const uint8_t *p = data;
	char buf[4096];
	size_t total = 0, take, len;

	while (n > 0 && b->n > 0 && b->n < 3) {
		b->have[b->n++] = *p++;
		n--;
	}
	if (b->n == 3) {
		len = base64_encode(b->have, 3, buf);
		evbuffer_add(out, buf, len);
		total += len;
		b->n = 0;
	}
	for (; n >= 3; p += take, n -= take) {
		take = n - n % 3;
		if (take > sizeof(buf) / 4 * 3)
			take = sizeof(buf) / 4 * 3;
		len = base64_encode(p, take, buf);
		evbuffer_add(out, buf, len);
		total += len;
	}
	while (n-- > 0)
		b->have[b->n++] = *p++;
	return total;
}

size_t
out_base64_end(struct evbuffer *out, struct base64 *b)
{
	char buf[4];
	size_t len = base64_encode(b->have, b->n, buf);

	b->n = 0;
	if (len > 0)
		evbuffer_add(out, buf, len);
	return len;
}

void
out_nano(struct evbuffer *out, int64_t v)
{
	char digits[16];
	int n = 9;

	if (v < 0)
		v = 0;
	evbuffer_add_printf(out, "%lld.", (long long)(v / 1000000000));
	for (int64_t rest = v % 1000000000, i = 8; i >= 0; i--, rest /= 10)
		digits[i] = (char)('0' + rest % 10);
	while (n > 1 && digits[n - 1] == '0')
		n--;
	evbuffer_add(out, digits, (size_t)n);
}
