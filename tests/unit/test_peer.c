// link: apid/head.o apid/peer.o apid/proxy_header.o common/keys_net.o
/* Whom apid takes for its client: PROXY headers and X-Forwarded-For, of those that are trusted. */
#include <arpa/inet.h>
#include <stdio.h>

#include "tests/unit/forked.h"

#include "apid/proxy_header.h"

#define SIGNATURE "\r\n\r\n\0\r\nQUIT\n"
#define FOUR "\xcb\x00\x71\x09\xc0\x00\x02\x01\x12\x67\x01\xbb" /* 203.0.113.9:4711 */

static struct peer_addr
peer_of(const char *addr, uint16_t port)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	struct peer_addr p;

	if (inet_pton(AF_INET, addr, &in.sin_addr) == 1) {
		peer_set_sockaddr(&p, (struct sockaddr *)&in);
	} else {
		assert_int_equal(inet_pton(AF_INET6, addr, &in6.sin6_addr), 1);
		peer_set_sockaddr(&p, (struct sockaddr *)&in6);
	}
	return p;
}

static void
peers_are_written_as_people_write_them(void **state)
{
	struct sockaddr other = {.sa_family = AF_UNIX};
	struct peer_addr p;

	(void)state;
	assert_string_equal(peer_of("192.0.2.1", 80).text, "192.0.2.1:80");
	assert_string_equal(peer_of("::ffff:192.0.2.1", 80).text, "192.0.2.1:80");
	assert_memory_equal(peer_of("::ffff:192.0.2.1", 1).addr, peer_of("192.0.2.1", 1).addr, 16);
	assert_string_equal(peer_of("2001:db8::1", 443).text, "[2001:db8::1]:443");
	assert_string_equal(peer_of("ffff:eeee:dddd:cccc:bbbb:aaaa:9999:8888", 65535).text,
	    "[ffff:eeee:dddd:cccc:bbbb:aaaa:9999:8888]:65535");
	peer_set_sockaddr(&p, &other);
	assert_string_equal(p.text, "?");
}

static int
header(const char *text, size_t n, struct peer_addr *p, size_t *used)
{
	*p = peer_of("127.0.0.1", 5);
	return proxy_header_parse((const uint8_t *)text, n, p, used);
}

#define HEADER(text) header(text, sizeof(text) - 1, &p, &used)

static void
header_of_a_proxy_names_the_client(void **state)
{
	static const char four[] = SIGNATURE "\x21\x11\x00\x0f" FOUR "\x04\x00\x00GET";
	struct peer_addr p;
	size_t used, n;

	(void)state;
	assert_int_equal(HEADER(four), 1);
	assert_int_equal(used, sizeof(four) - 4);
	assert_string_equal(p.text, "203.0.113.9:4711");
	for (n = 0; n < used; n++) {
		struct peer_addr q;
		size_t none;

		assert_int_equal(header(four, n, &q, &none), 0);
		assert_string_equal(q.text, "127.0.0.1:5");
	}
	assert_int_equal(HEADER(SIGNATURE "\x21\x21\x00\x24\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0"
					  "\x07\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\x12\x67\x01\xbb"),
	    1);
	assert_string_equal(p.text, "[2001:db8::7]:4711");
}

static void
header_that_names_nobody_leaves_the_peer(void **state)
{
	struct peer_addr p;
	size_t used;

	(void)state;
	assert_int_equal(HEADER(SIGNATURE "\x20\x00\x00\x00"), 1);
	assert_int_equal(used, 16);
	assert_int_equal(HEADER(SIGNATURE "\x20\x11\x00\x0c" FOUR), 1);
	assert_string_equal(p.text, "127.0.0.1:5");
	assert_int_equal(HEADER(SIGNATURE "\x21\x00\x00\x03\x04\x00\x00"), 1);
	assert_string_equal(p.text, "127.0.0.1:5");
	assert_int_equal(HEADER("GET / HTTP/1.1\r\n"), 1);
	assert_int_equal(used, 0);
	assert_int_equal(HEADER("P"), 0);
	assert_int_equal(HEADER("PUT /"), 1);
	assert_int_equal(HEADER("\x16\x03\x01"), 1);
	assert_int_equal(used, 0);
}

static void
malformed_header_is_refused(void **state)
{
	static char big[PROXY_HEADER_MAX + 1] = SIGNATURE "\x21\x11\x0f\xf0" FOUR;
	struct peer_addr p;
	size_t used;

	(void)state;
	assert_int_equal(HEADER("PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n"), -1);
	assert_int_equal(HEADER(SIGNATURE "\x11\x11\x00\x0c" FOUR), -1);
	assert_int_equal(HEADER(SIGNATURE "\x22\x11\x00\x0c" FOUR), -1);
	assert_int_equal(HEADER(SIGNATURE "\x21\x12\x00\x0c" FOUR), -1);
	assert_int_equal(HEADER(SIGNATURE "\x21\x41\x00\x0c" FOUR), -1);
	assert_int_equal(HEADER(SIGNATURE "\x21\x11\x00\x0b" FOUR), -1);
	assert_int_equal(HEADER(SIGNATURE "\x21\x21\x00\x0c" FOUR), -1);
	assert_int_equal(header(big, sizeof(big), &p, &used), 1);
	assert_int_equal(used, PROXY_HEADER_MAX);
	big[15] = '\xf1';
	assert_int_equal(header(big, sizeof(big), &p, &used), -1);
	assert_string_equal(p.text, "127.0.0.1:5");
}

/* lines: what stands in the head beside Host. */
static const char *
client_of(const char *socket, const char *lines)
{
	static struct peer_addr p;
	struct peer_trust trust;
	char head[1024];

	peer_trust_init(&trust, "127.0.0.1, 10.0.0.0/8,2001:db8:1::/48");
	snprintf(head, sizeof(head), "GET / HTTP/1.1\r\nHost: a\r\n%sA: b\r\n\r\n", lines);
	p = peer_of(socket, 80);
	peer_forwarded(head, strlen(head), &trust, &p);
	free(trust.nets);
	return p.text;
}

static void
trusted_proxy_is_believed_and_nobody_else(void **state)
{
	(void)state;
	assert_string_equal(client_of("127.0.0.1", "X-Forwarded-For: 192.0.2.7\r\n"), "192.0.2.7");
	assert_string_equal(client_of("127.0.0.1", "x-forwarded-FOR:192.0.2.7\r\n"), "192.0.2.7");
	assert_string_equal(
	    client_of("2001:db8:1::5", "X-Forwarded-For: 2001:db8:2::1\r\n"), "2001:db8:2::1");
	assert_string_equal(
	    client_of("127.0.0.2", "X-Forwarded-For: 192.0.2.7\r\n"), "127.0.0.2:80");
	assert_string_equal(
	    client_of("2001:db8:2::5", "X-Forwarded-For: 192.0.2.7\r\n"), "[2001:db8:2::5]:80");
	assert_string_equal(client_of("127.0.0.1", ""), "127.0.0.1:80");
	assert_string_equal(
	    client_of("127.0.0.1", "X-Forwarded-Fo: 192.0.2.7\r\n"), "127.0.0.1:80");
}

static void
rightmost_address_that_is_no_proxy_is_the_client(void **state)
{
	(void)state;
	assert_string_equal(
	    client_of("127.0.0.1", "X-Forwarded-For: 192.0.2.1, 192.0.2.2, 10.1.1.1 ,10.0.0.2\r\n"),
	    "192.0.2.2");
	assert_string_equal(client_of("127.0.0.1", "X-Forwarded-For: 192.0.2.1, 192.0.2.2\r\n"
						   "B: c\r\nX-Forwarded-For: 10.9.9.9\r\n"),
	    "192.0.2.2");
	assert_string_equal(
	    client_of("127.0.0.1", "X-Forwarded-For: 10.0.0.3, 10.0.0.2\r\n"), "10.0.0.3");
	assert_string_equal(
	    client_of("127.0.0.1", "X-Forwarded-For: 192.0.2.9:81, [2001:db8:1::9]:443\r\n"),
	    "192.0.2.9");
}

static void
field_that_cannot_be_read_leaves_what_was_known(void **state)
{
	static const char *const bad[] = {"", " ", "unknown", "192.0.2",
	    "192.0.2.7:", "192.0.2.7:x", "192.0.2.7:123456", "[2001:db8::1", "[2001:db8::1]x",
	    "[192.0.2.7]", "192.0.2.7.", "192.0.2.7 192.0.2.8", "_hidden", "\"192.0.2.7\"",
	    "192.0.2.7;", "1111111111111111111111111111111111111111111111111111111111111111111111"};
	char line[256];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(line, sizeof(line), "X-Forwarded-For: 192.0.2.1,%s\r\n", bad[i]);
		assert_string_equal(client_of("127.0.0.1", line), "127.0.0.1:80");
		snprintf(line, sizeof(line), "X-Forwarded-For: 192.0.2.1,%s, 10.1.1.1\r\n", bad[i]);
		assert_string_equal(client_of("127.0.0.1", line), "10.1.1.1");
	}
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
	    cmocka_unit_test(peers_are_written_as_people_write_them),
	    cmocka_unit_test(header_of_a_proxy_names_the_client),
	    cmocka_unit_test(header_that_names_nobody_leaves_the_peer),
	    cmocka_unit_test(malformed_header_is_refused),
	    cmocka_unit_test(trusted_proxy_is_believed_and_nobody_else),
	    cmocka_unit_test(rightmost_address_that_is_no_proxy_is_the_client),
	    cmocka_unit_test(field_that_cannot_be_read_leaves_what_was_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
