/* The first bytes of connections to the outside: which server a TLS hello or an HTTP request asks
 * for, and what is refused because it could be read in two ways. */
// link: egressd/look.o egressd/tls.o egressd/http.o egressd/reason.o
// link: common/egress.o common/egress_list.o common/egress_range.o
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "egressd/look.h"
#include "egressd/tls.h"

static uint8_t buf[70000];
static size_t len;

static void
put(const void *p, size_t n)
{
	memcpy(buf + len, p, n);
	len += n;
}

static void
put_number(size_t value, size_t n)
{
	while (n-- > 0)
		buf[len++] = (uint8_t)(value >> 8 * n);
}

/* Writes the number of bytes behind it into the n bytes at `at`. */
static void
close_vector(size_t at, size_t n)
{
	size_t size = len - at - n, end = len;

	len = at;
	put_number(size, n);
	len = end;
}

static void
put_name(size_t kind, const char *name)
{
	put_number(kind, 1);
	put_number(strlen(name), 2);
	put(name, strlen(name));
}

/* A server name extension with these names (NULL ends them). */
static void
put_sni(const char *const *names)
{
	size_t ext, list;

	put_number(0, 2);
	ext = len;
	put_number(0, 2);
	list = len;
	put_number(0, 2);
	for (; *names != NULL; names++)
		put_name(0, *names);
	close_vector(list, 2);
	close_vector(ext, 2);
}

static void
put_extension(size_t type, size_t n)
{
	put_number(type, 2);
	put_number(n, 2);
	memset(buf + len, 'x', n);
	len += n;
}

/* A hello in one record, with these lists of names, each an extension; NULL ends them. */
static void
make_hello(const char *const *const *snis)
{
	size_t record = 3, message = 6, extensions;

	len = 0;
	put("\26\3\1\0\0\1\0\0\0\3\3", 11);
	memset(buf + len, 'r', 32);
	len += 32;
	put("\40", 1);
	memset(buf + len, 's', 32);
	len += 32;
	put("\0\4\23\1\23\2\1\0", 8);
	extensions = len;
	put_number(0, 2);
	put_extension(0x0a0a, 0);
	put_extension(43, 5);
	for (; *snis != NULL; snis++)
		put_sni(*snis);
	put_extension(21, 200);
	close_vector(extensions, 2);
	close_vector(message, 3);
	close_vector(record, 2);
}

static void
hello_for(const char *name)
{
	make_hello((const char *const *[]){(const char *[]){name, NULL}, NULL});
}

/* Cuts the record in buf into records of n bytes. */
static void
cut_records(size_t n)
{
	static uint8_t body[70000];
	size_t size = len - 5, at, k;

	memcpy(body, buf + 5, size);
	len = 0;
	for (at = 0; at < size; at += k) {
		k = size - at < n ? size - at : n;
		put("\26\3\3", 3);
		put_number(k, 2);
		put(body + at, k);
	}
}

static enum tls_result
read_hello(char name[257])
{
	struct tls_name out;
	enum tls_result r = tls_hello(buf, len, &out);

	memcpy(name, out.name, out.len);
	name[out.len] = '\0';
	return r;
}

static void
the_server_name_is_found_however_the_hello_is_cut(void **state)
{
	char name[257];
	size_t whole;

	(void)state;
	for (size_t n = 1; n <= 400; n += n < 20 ? 1 : 37) {
		hello_for("example.com");
		cut_records(n);
		assert_int_equal(read_hello(name), TLS_NAME);
		assert_string_equal(name, "example.com");
		whole = len;
		for (len = 0; len < whole; len++)
			if (read_hello(name) != TLS_MORE)
				fail_msg("records of %zu, %zu of %zu bytes", n, len, whole);
	}
	make_hello((const char *const *[]){NULL});
	assert_int_equal(read_hello(name), TLS_NONE);
}

static void
a_hello_that_could_be_read_in_two_ways_is_refused(void **state)
{
	const char *one[] = {"a.example", NULL}, *two[] = {"a.example", "b.example", NULL};
	const char *none[] = {NULL}, *empty[] = {"", NULL};
	char name[257], longest[300];
	size_t whole, i;

	(void)state;
	make_hello((const char *const *[]){one, one, NULL});
	assert_int_equal(read_hello(name), TLS_BAD);
	make_hello((const char *const *[]){two, NULL});
	assert_int_equal(read_hello(name), TLS_BAD);
	make_hello((const char *const *[]){none, NULL});
	assert_int_equal(read_hello(name), TLS_BAD);
	make_hello((const char *const *[]){empty, NULL});
	assert_int_equal(read_hello(name), TLS_BAD);
	memset(longest, 'a', sizeof(longest));
	longest[257] = '\0';
	hello_for(longest);
	assert_int_equal(read_hello(name), TLS_BAD);
	longest[256] = '\0';
	hello_for(longest);
	assert_int_equal(read_hello(name), TLS_NAME);
	/* Every length that is one more or less than it should be. */
	hello_for("example.com");
	whole = len;
	const size_t lengths[] = {8, 43, 77, 81, 84, 88, 99, 101, 104};
	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		for (int by = -1; by <= 1; by += 2) {
			hello_for("example.com");
			buf[lengths[i]] = (uint8_t)(buf[lengths[i]] + by);
			len = whole;
			if (read_hello(name) == TLS_NAME && strcmp(name, "example.com") != 0)
				fail_msg("byte %zu: %s", lengths[i], name);
		}
}

static void
what_is_no_hello_is_refused(void **state)
{
	static const struct {
		const char *bytes;
		size_t n;
	} bad[] = {
	    {"\25\3\1\0\2\1\0", 7},     /* an alert before the hello */
	    {"\24\3\1\0\1\1", 6},       /* change_cipher_spec */
	    {"\27\3\1\0\1x", 6},        /* data */
	    {"\26\3\1\0\0", 5},         /* an empty record */
	    {"\26\3\1\100\1x", 6},      /* 16385 bytes */
	    {"\26\2\1\0\4\1\0\0", 8},   /* not a version of TLS */
	    {"\26\3\1\0\4\2\0\0\0", 9}, /* ServerHello */
	    {"\26\3\1\0\4\1\0\0\0", 9}, /* an empty hello */
	    {"\200\56\1\3\1", 5},       /* SSLv2 */
	};
	char name[257];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		memcpy(buf, bad[i].bytes, bad[i].n);
		len = bad[i].n;
		assert_true(tls_begins(buf, len));
		if (read_hello(name) != TLS_BAD)
			fail_msg("row %zu", i);
	}
	/* A hello whose next record is another kind. */
	hello_for("example.com");
	cut_records(50);
	buf[55] = 23;
	assert_int_equal(read_hello(name), TLS_BAD);
	assert_false(tls_begins((const uint8_t *)"GET ", 4));
	assert_false(tls_begins((const uint8_t *)"SSH-", 4));
	assert_false(tls_begins((const uint8_t *)"", 0));
}

static enum look_result
look(enum look how, const char *dialled, uint16_t port, enum reason *why)
{
	struct egress_host host;
	const char *what;

	assert_int_equal(egress_host(dialled, strlen(dialled), &host, &what), 0);
	*why = REASON_NONE;
	return look_at(how, buf, len, &host, port, why);
}

static void
a_hello_must_name_what_was_dialled(void **state)
{
	enum reason why;

	(void)state;
	hello_for("Example.COM");
	assert_int_equal(look(LOOK_TLS, "example.com", 443, &why), LOOK_PASS);
	assert_int_equal(look(LOOK_HTTP, "example.com", 80, &why), LOOK_PASS);
	assert_int_equal(look(LOOK_TLS, "other.example", 443, &why), LOOK_REFUSE);
	assert_int_equal(why, REASON_OTHER_SNI);
	assert_int_equal(look(LOOK_TLS, "www.example.com", 443, &why), LOOK_REFUSE);
	assert_int_equal(look(LOOK_TLS, "1.2.3.4", 443, &why), LOOK_REFUSE);
	assert_int_equal(look(LOOK_NOT, "other.example", 443, &why), LOOK_PASS);
	hello_for("example.com.");
	assert_int_equal(look(LOOK_TLS, "example.com", 443, &why), LOOK_PASS);
	make_hello((const char *const *[]){NULL});
	assert_int_equal(look(LOOK_TLS, "example.com", 443, &why), LOOK_REFUSE);
	assert_int_equal(why, REASON_OTHER_SNI);
	assert_int_equal(look(LOOK_TLS, "1.2.3.4", 443, &why), LOOK_PASS);
	hello_for("1.2.3.4");
	assert_int_equal(look(LOOK_TLS, "1.2.3.4", 443, &why), LOOK_PASS);
	memcpy(buf, "\25\3\1\0\2\1\0", 7);
	assert_int_equal(look(LOOK_TLS, "example.com", 443, &why), LOOK_REFUSE);
	assert_int_equal(why, REASON_NOT_HELLO);
}

static void
what_is_not_tls_passes_on_443_alone(void **state)
{
	enum reason why;

	(void)state;
	len = 0;
	put("SSH-2.0-x\r\n", 11);
	assert_int_equal(look(LOOK_TLS, "example.com", 443, &why), LOOK_PASS);
	assert_int_equal(look(LOOK_HTTP, "example.com", 80, &why), LOOK_REFUSE);
	assert_int_equal(why, REASON_NOT_HTTP);
	memcpy(buf, "\200\56\1", 3); /* SSLv2 perhaps: one byte more tells */
	len = 3;
	assert_int_equal(look(LOOK_TLS, "example.com", 443, &why), LOOK_MORE);
	buf[3] = 3;
	len = 4;
	assert_int_equal(look(LOOK_TLS, "example.com", 443, &why), LOOK_REFUSE);
	buf[3] = 9;
	assert_int_equal(look(LOOK_TLS, "example.com", 443, &why), LOOK_PASS);
}

static void
a_head_that_does_not_end_is_refused(void **state)
{
	enum reason why;

	(void)state;
	memset(buf, 'a', LOOK_MAX);
	memcpy(buf, "GET / HTTP/1.1\r\nX: ", 19);
	len = LOOK_MAX - 1;
	assert_int_equal(look(LOOK_HTTP, "example.com", 80, &why), LOOK_MORE);
	len = LOOK_MAX;
	assert_int_equal(look(LOOK_HTTP, "example.com", 80, &why), LOOK_REFUSE);
	assert_int_equal(why, REASON_NOT_HTTP);
	hello_for("example.com");
	buf[3] = 0x3f; /* a record, and a message in it, that do not end */
	buf[6] = 0xff;
	buf[81] = 0xff;
	buf[88] = 0xff;
	len = LOOK_MAX;
	assert_int_equal(look(LOOK_TLS, "example.com", 443, &why), LOOK_REFUSE);
	assert_int_equal(why, REASON_NOT_HELLO);
}

static enum look_result
request(const char *text, const char *dialled, uint16_t port, enum reason *why)
{
	len = strlen(text);
	memcpy(buf, text, len);
	return look(LOOK_HTTP, dialled, port, why);
}

static void
a_request_must_be_for_what_was_dialled(void **state)
{
	static const struct {
		const char *text, *dialled;
		uint16_t port;
	} good[] = {
	    {"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n", "example.com", 80},
	    {"GET / HTTP/1.0\r\nhost:example.com:80\r\n\r\n", "example.com", 80},
	    {"POST /x?y HTTP/1.1\r\nA: b\r\nHOST: \t Example.Com. \r\nC:\r\n\r\nbody",
		"example.com", 80},
	    {"GET http://example.com/x HTTP/1.1\r\nHost: example.com\r\n\r\n", "example.com", 80},
	    {"GET HTTP://EXAMPLE.com:80 HTTP/1.1\r\nHost: example.com\r\n\r\n", "example.com", 80},
	    {"OPTIONS * HTTP/1.1\r\nHost: example.com:8080\r\n\r\n", "example.com", 8080},
	    {"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n", "example.com", 8080},
	    {"GET / HTTP/1.1\r\nHost: 1.2.3.4\r\n\r\n", "1.2.3.4", 80},
	    {"GET / HTTP/1.1\r\nHost: [2600::1]\r\n\r\n", "2600::1", 80},
	    {"GET / HTTP/1.1\r\nHost: [2600::1]:8080\r\n\r\n", "2600::1", 8080},
	};
	static const char *const other[] = {
	    "GET / HTTP/1.1\r\nHost: other.example\r\n\r\n",
	    "GET / HTTP/1.1\r\nHost: example.com:81\r\n\r\n",
	    "GET / HTTP/1.1\r\nHost: example.com:\r\n\r\n",
	    "GET / HTTP/1.1\r\nHost: example.com:080000080\r\n\r\n",
	    "GET / HTTP/1.1\r\nHost: example.com:80:80\r\n\r\n",
	    "GET / HTTP/1.1\r\nHost: user@example.com\r\n\r\n",
	    "GET / HTTP/1.1\r\nHost: example.com, other.example\r\n\r\n",
	    "GET / HTTP/1.1\r\nHost: example.com/\r\n\r\n",
	    "GET / HTTP/1.1\r\nHost: www.example.com\r\n\r\n",
	    "GET / HTTP/1.1\r\nHost: 2600::1\r\n\r\n",
	    "GET / HTTP/1.1\r\nHost: []\r\n\r\n",
	    "GET / HTTP/1.1\r\nHost: :80\r\n\r\n",
	    "GET http://other.example/ HTTP/1.1\r\nHost: example.com\r\n\r\n",
	    "GET http://example.com/ HTTP/1.1\r\nHost: other.example\r\n\r\n",
	    "GET http://example.com:81/ HTTP/1.1\r\nHost: example.com\r\n\r\n",
	};
	enum reason why;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		if (request(good[i].text, good[i].dialled, good[i].port, &why) != LOOK_PASS)
			fail_msg("%s", good[i].text);
	for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++) {
		if (request(other[i], "example.com", 80, &why) != LOOK_REFUSE)
			fail_msg("%s", other[i]);
		assert_int_equal(why, REASON_OTHER_HOST);
	}
}

static void
a_request_that_could_be_read_in_two_ways_is_refused(void **state)
{
	static const char *const bad[] = {
	    " GET / HTTP/1.1\r\nHost: example.com\r\n\r\n",
	    "\r\nGET / HTTP/1.1\r\nHost: example.com\r\n\r\n",
	    "GET / HTTP/1.1\r\n\r\n",
	    "GET / HTTP/1.1\r\nHost:\r\n\r\n",
	    "GET / HTTP/1.1\r\nHost: example.com\r\nHost: example.com\r\n\r\n",
	    "GET / HTTP/1.1\r\nHost: example.com\r\nhost: other.example\r\n\r\n",
	    "GET / HTTP/1.1\r\nHost : example.com\r\n\r\n",
	    "GET / HTTP/1.1\r\n Host: example.com\r\n\r\n",
	    "GET / HTTP/1.1\r\nX: a\r\n Host: b\r\nHost: example.com\r\n\r\n",
	    "GET / HTTP/1.1\r\nHost: other.example\n\nx\r\nHost: example.com\r\n\r\n",
	    "GET / HTTP/1.1\nHost: example.com\n\n",
	    "GET / HTTP/1.1\r\nX: a\rHost: other.example\r\nHost: example.com\r\n\r\n",
	    "GET / HTTP/1.1\r\nX: \x01\r\nHost: example.com\r\n\r\n",
	    "GET / HTTP/1.1\r\n: x\r\nHost: example.com\r\n\r\n",
	    "GET / HTTP/1.1\r\nno colon\r\nHost: example.com\r\n\r\n",
	    "GET  / HTTP/1.1\r\nHost: example.com\r\n\r\n",
	    "GET / HTTP/1.1 \r\nHost: example.com\r\n\r\n",
	    "GET /\tx HTTP/1.1\r\nHost: example.com\r\n\r\n",
	    "GET / HTTP/2.0\r\nHost: example.com\r\n\r\n",
	    "GET / HTTP/1.2\r\nHost: example.com\r\n\r\n",
	    "GET / HTTP/1.10\r\nHost: example.com\r\n\r\n",
	    "GET /\r\n\r\n",
	    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	    "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n",
	    "GET example.com HTTP/1.1\r\nHost: example.com\r\n\r\n",
	    "GET https://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n",
	    "GET http:///x HTTP/1.1\r\nHost: example.com\r\n\r\n",
	    "GET http://other@example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n",
	};
	enum reason why;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (request(bad[i], "example.com", 80, &why) != LOOK_REFUSE)
			fail_msg("%s", bad[i]);
		assert_int_equal(why, REASON_NOT_HTTP);
	}
}

static void
a_request_is_waited_for_until_its_empty_line(void **state)
{
	static const char text[] = "GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n";
	enum reason why;

	(void)state;
	memcpy(buf, text, sizeof(text));
	for (len = 1; len < sizeof(text) - 1; len++)
		assert_int_equal(look(LOOK_HTTP, "example.com", 80, &why), LOOK_MORE);
	assert_int_equal(look(LOOK_HTTP, "example.com", 80, &why), LOOK_PASS);
}

static void
ports_say_what_is_looked_at(void **state)
{
	(void)state;
	assert_int_equal(look_for(443, DIAL_CONNECT), LOOK_TLS);
	assert_int_equal(look_for(443, DIAL_HTTP), LOOK_HTTP);
	assert_int_equal(look_for(80, DIAL_SOCKS), LOOK_HTTP);
	assert_int_equal(look_for(8080, DIAL_HTTP), LOOK_HTTP);
	assert_int_equal(look_for(8080, DIAL_DIRECT), LOOK_NOT);
}

static void
every_reason_has_a_text_of_its_own(void **state)
{
	char text[DIAL_TEXT_MAX], other[DIAL_TEXT_MAX];

	(void)state;
	for (int i = 1; i < REASON_COUNT; i++) {
		assert_true(reason_text((enum reason)i, "1.2.3.4", "private", text) > 0);
		assert_int_not_equal(reason_verdict((enum reason)i), DIAL_OK);
		for (int k = 1; k < i; k++) {
			reason_text((enum reason)k, "1.2.3.4", "private", other);
			assert_string_not_equal(text, other);
		}
	}
	reason_text(REASON_NOT_PUBLIC, "1.2.3.4", "private", text);
	assert_string_equal(text, "1.2.3.4 is not public (private)");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_server_name_is_found_however_the_hello_is_cut),
	    cmocka_unit_test(a_hello_that_could_be_read_in_two_ways_is_refused),
	    cmocka_unit_test(what_is_no_hello_is_refused),
	    cmocka_unit_test(a_hello_must_name_what_was_dialled),
	    cmocka_unit_test(what_is_not_tls_passes_on_443_alone),
	    cmocka_unit_test(a_head_that_does_not_end_is_refused),
	    cmocka_unit_test(a_request_must_be_for_what_was_dialled),
	    cmocka_unit_test(a_request_that_could_be_read_in_two_ways_is_refused),
	    cmocka_unit_test(a_request_is_waited_for_until_its_empty_line),
	    cmocka_unit_test(ports_say_what_is_looked_at),
	    cmocka_unit_test(every_reason_has_a_text_of_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
