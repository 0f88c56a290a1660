// link: sessiond/args.o sessiond/buf.o sessiond/channel.o sessiond/data.o sessiond/dial.o
// link: sessiond/guest.o sessiond/job.o sessiond/job_exec.o sessiond/job_file.o sessiond/manager.o
// link: sessiond/pack.o sessiond/session.o sessiond/sha256.o sessiond/stdcopy.o sessiond/text.o
// link: -l:libcrypto.a -lzstd
/* The pure parts of sessiond. */
#include <sys/socket.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/record.h"
#include "proto/data.h"
#include "sessiond/args.h"
#include "sessiond/guest.h"
#include "sessiond/data.h"
#include "sessiond/sha256.h"
#include "sessiond/stdcopy.h"
#include "sessiond/text.h"

static void
buffer_keeps_its_bytes_while_it_grows_and_moves(void **state)
{
	struct buf b = {0};
	uint8_t next_in = 0, next_out = 0;
	size_t i, n;

	(void)state;
	for (i = 0; i < 20000; i++) {
		for (n = 0; n < i % 7; n++) {
			buf_add(&b, &next_in, 1);
			next_in++;
		}
		n = buf_len(&b) < i % 5 ? buf_len(&b) : i % 5;
		while (n-- > 0) {
			assert_int_equal(*buf_data(&b), next_out);
			next_out++;
			buf_drop(&b, 1);
		}
	}
	assert_true(b.cap <= 4 * (buf_len(&b) + 1024));
	buf_free(&b);
	assert_null(buf_data(&b));
}

static void
text_becomes_valid_utf8_without_control_characters(void **state)
{
	static const struct {
		const char *in, *out;
	} rows[] = {
	    {"plain", "plain"},
	    {"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80",
		"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
	    {"a\nb\x1b[0m\x7f", "a?b?[0m?"},
	    {"\xc2\x85", "??"},                /* a C1 control character */
	    {"\xc0\xaf\xe0\x80\xaf", "?????"}, /* overlong */
	    {"\xed\xa0\x80", "???"},           /* a surrogate */
	    {"\xf4\x90\x80\x80", "????"},      /* beyond Unicode */
	    {"\xe2\x82", "??"},                /* cut */
	    {"", ""},
	};
	char out[64];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		text_clean(rows[i].in, strlen(rows[i].in), out, sizeof(out));
		assert_string_equal(out, rows[i].out);
	}
	text_clean("abc\xe2\x82\xac", 6, out, 6);
	assert_string_equal(out, "abc"); /* never half a character */
	text_clean("a\0b", 3, out, sizeof(out));
	assert_string_equal(out, "a?b");
}

static void
engine_framing_is_parsed_strictly(void **state)
{
	static const uint8_t bad[][8] = {
	    {0, 0, 0, 0, 0, 0, 0, 1},
	    {3, 0, 0, 0, 0, 0, 0, 1},
	    {1, 1, 0, 0, 0, 0, 0, 1},
	    {1, 0, 0, 9, 0, 0, 0, 1},
	    {1, 0, 0, 0, 0, 0x10, 0, 1},
	};
	uint8_t good[] = {1, 0, 0, 0, 0, 0, 0, 3, 'a', 'b', 'c', 2, 0, 0, 0, 0, 0, 0, 1, 'E', 1, 0,
	    0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 2, 'd', 'e'};
	struct stdcopy c = {0};
	uint8_t p[8];
	size_t i;

	(void)state;
	assert_int_equal(stdcopy_unwrap(&c, good, sizeof(good)), 5);
	assert_memory_equal(good, "abcde", 5);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		memset(&c, 0, sizeof(c));
		memcpy(p, bad[i], sizeof(p));
		assert_int_equal(stdcopy_unwrap(&c, p, 5), 0);
		assert_int_equal(stdcopy_unwrap(&c, p + 5, 3), -1);
	}
}

static void
answer_is_found_behind_any_garbage(void **state)
{
	struct g_hello hello = {.nonce = 42, .version = 1}, ack;
	uint8_t stream[300];
	size_t at, used;

	(void)state;
	for (at = 0; at < 200; at++) {
		memset(stream, 0x41, sizeof(stream)); /* the magic's first byte */
		frame_header(stream + at, G_HELLO_ACK, 0, &hello, sizeof(hello));
		memcpy(stream + at + FRAME_HEADER, &hello, sizeof(hello));
		assert_int_equal(guest_sync(stream, sizeof(stream), 42, &ack, &used), 1);
		assert_int_equal(used, at + FRAME_HEADER + sizeof(hello));
		assert_int_equal(guest_sync(stream, sizeof(stream), 43, &ack, &used), 0);
		/* What may be the begin of the answer is kept. */
		assert_int_equal(guest_sync(stream, at + 20, 42, &ack, &used), 0);
		assert_true(used <= at);
	}
}

static void
argument_block_is_merged(void **state)
{
	static const char record[] = "\2\0\0\0\1\0\0\0ls\0-l\0A=1\0/tmp"; /* with its last NUL */
	static const char env[] = "A=2\0B=3";                             /* the same */
	static const char want[] =
	    "\2\0\0\0\4\0\0\0ls\0-l\0A=1\0B=3\0HOME=/workspace\0PATH=" GUEST_PATH "\0/tmp";
	struct buf out = {0};
	size_t i;

	(void)state;
	assert_null(args_build((const uint8_t *)record, sizeof(record), env, sizeof(env), 0, &out));
	assert_int_equal(buf_len(&out), sizeof(want));
	assert_memory_equal(buf_data(&out), want, sizeof(want));
	for (i = 0; i < sizeof(record); i++) {
		buf_free(&out);
		assert_non_null(args_build((const uint8_t *)record, i, NULL, 0, 0, &out));
	}
	buf_free(&out);
	assert_true(args_env_valid("", 0));
	assert_true(args_env_valid("A=\0B==", 7));
	assert_false(args_env_valid("A=1", 3));
	assert_false(args_env_valid("=1\0", 3));
	assert_false(args_env_valid("A\0", 2));
	assert_false(args_env_valid("\0", 1));
}

static void
sha256_is_the_standards(void **state)
{
	static const uint8_t abc[] = {0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41,
	    0x40, 0xde, 0x5d, 0xae, 0x22, 0x23, 0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17, 0x7a, 0x9c,
	    0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad};
	struct sha256 *h = sha256_new();
	uint8_t out[SHA256_BYTES];

	(void)state;
	sha256_once("abc", 3, out);
	assert_memory_equal(out, abc, sizeof(abc));
	sha256_add(h, "a", 1);
	sha256_add(h, "bc", 2);
	sha256_end(h, out);
	assert_memory_equal(out, abc, sizeof(abc));
}

static void
no_event(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
}

/* All credit comes back when all bytes have left, and no earlier than as many bytes have. */
static void
credit_is_released_as_bytes_leave(void **state)
{
	struct event_base *base = event_base_new();
	static uint8_t bytes[65536], in[200000];
	struct data d;
	uint32_t given = 0, sent = 0;
	size_t got = 0;
	ssize_t n;
	int fd[2], i;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	data_open(&d, base, fd[0], no_event, no_event, NULL);
	for (i = 0; i < 300; i++) {
		n = i % 3 == 0 ? (ssize_t)sizeof(bytes) / 16 : i % 50 + 1;
		data_put(&d, i % 2 ? RECORD_STDOUT : RECORD_STDERR, NULL, 0, bytes, (size_t)n, 1);
		sent += (uint32_t)n;
		assert_int_equal(data_flush(&d), 0);
		given += d.released;
		d.released = 0;
		assert_int_equal(given + d.pending, sent);
	}
	assert_true(d.pending > 0);
	while ((n = recv(fd[1], in, sizeof(in), MSG_DONTWAIT)) > 0) {
		got += (size_t)n;
		assert_int_equal(data_flush(&d), 0);
		given += d.released;
		d.released = 0;
		assert_true(given <= sent);
	}
	assert_int_equal(given, sent);
	assert_true(got > sent);
	data_close(&d);
	close(fd[1]);
	event_base_free(base);
}

static void
small_records_of_one_kind_are_joined_while_they_wait(void **state)
{
	struct event_base *base = event_base_new();
	uint8_t in[64];
	struct data d;
	int fd[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	data_open(&d, base, fd[0], no_event, no_event, NULL);
	data_put(&d, RECORD_STDOUT, NULL, 0, "ab", 2, 1);
	data_put(&d, RECORD_STDOUT, NULL, 0, "cd", 2, 1);
	data_put(&d, RECORD_STDERR, NULL, 0, "ef", 2, 1);
	data_put(&d, RECORD_STDERR, NULL, 0, "gh", 2, 1);
	assert_int_equal(data_flush(&d), 0);
	assert_int_equal(recv(fd[1], in, sizeof(in), MSG_DONTWAIT), 18);
	assert_memory_equal(in, "\4\0\0\0Aabcd\4\0\0\0Befgh", 18);
	assert_int_equal(d.released, 8);
	data_close(&d);
	close(fd[1]);
	event_base_free(base);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(buffer_keeps_its_bytes_while_it_grows_and_moves),
	    cmocka_unit_test(text_becomes_valid_utf8_without_control_characters),
	    cmocka_unit_test(engine_framing_is_parsed_strictly),
	    cmocka_unit_test(answer_is_found_behind_any_garbage),
	    cmocka_unit_test(argument_block_is_merged),
	    cmocka_unit_test(sha256_is_the_standards),
	    cmocka_unit_test(credit_is_released_as_bytes_leave),
	    cmocka_unit_test(small_records_of_one_kind_are_joined_while_they_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
