/* What sandbox-init reads of clients that want out: requests to its proxies, and the hosts file. */
// link: sandbox-init/proxy_http.o sandbox-init/proxy_socks.o sandbox-init/hosts.o
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-init/hosts.h"
#include "sandbox-init/proxy_http.h"
#include "sandbox-init/proxy_socks.h"

static const char *
request(const char *head, struct ask *a, char *out)
{
	size_t n = strlen(head), len;
	uint8_t *room = malloc(HTTP_HEAD_ROOM(n));
	const char *why;

	assert_int_equal(http_head_end((const uint8_t *)head, n), n);
	why = http_request((const uint8_t *)head, n, a, room, &len);
	memcpy(out, room, len);
	out[len] = '\0';
	free(room);
	return why;
}

static void
head_ends_at_the_first_empty_line(void **state)
{
	static const struct {
		const char *text;
		size_t end;
	} rows[] = {{"", 0}, {"GET", 0}, {"GET\r\n", 0}, {"GET\r\n\r", 0}, {"GET\r\n\r\n", 7},
	    {"GET\n\n", 5}, {"G\r\n\nrest", 4}, {"a\nb\n\r\nrest\n\n", 6}, {"a\n\rb\n\n", 6}};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(http_head_end((const uint8_t *)rows[i].text, strlen(rows[i].text)),
		    rows[i].end);
}

static void
absolute_url_becomes_origin_form(void **state)
{
	char out[1024];
	struct ask a;

	(void)state;
	assert_null(
	    request("GET http://h:81?q HTTP/1.1\r\nHost: other\r\nproxy-x: 1\r\n\r\n", &a, out));
	assert_string_equal(out, "GET /?q HTTP/1.1\r\nHost: other\r\nConnection: close\r\n\r\n");
	assert_int_equal(a.how, DIAL_HTTP);
	assert_int_equal(a.port, 81);
	assert_int_equal(a.name_len, 1);
	assert_memory_equal(a.name, "h", 1);
}

static void
connection_options_go_but_not_what_frames_the_body(void **state)
{
	char out[1024];
	struct ask a;

	(void)state;
	assert_null(request("POST http://h/ HTTP/1.1\nhost:h\nX: 1\nTransfer-Encoding: chunked\n"
			    "connection: \tx ,transfer-encoding, content-length\nY: 2\n\n",
	    &a, out));
	assert_string_equal(out, "POST / HTTP/1.1\r\nhost:h\r\nTransfer-Encoding: chunked\r\n"
				 "Y: 2\r\nConnection: close\r\n\r\n");
}

static void
connect_keeps_nothing_of_its_head(void **state)
{
	char out[1024];
	struct ask a;

	(void)state;
	assert_null(request("CONNECT [::1]:443 HTTP/1.0\r\nA: b\r\n\r\n", &a, out));
	assert_string_equal(out, "");
	assert_int_equal(a.how, DIAL_CONNECT);
	assert_int_equal(a.port, 443);
	assert_memory_equal(a.name, "::1", 3);
	assert_non_null(request("connect a:1 HTTP/1.1\r\n\r\n", &a, out));
}

static void
the_longest_name_fits_and_no_longer_one(void **state)
{
	char head[400] = "GET http://", out[1024];
	struct ask a;

	(void)state;
	memset(head + 11, 'x', DIAL_NAME_MAX);
	strcpy(head + 11 + DIAL_NAME_MAX, ":65535/ HTTP/1.1\n\n");
	assert_null(request(head, &a, out));
	assert_int_equal(a.name_len, DIAL_NAME_MAX);
	memset(head + 11, 'x', DIAL_NAME_MAX + 1);
	strcpy(head + 12 + DIAL_NAME_MAX, ":65535/ HTTP/1.1\n\n");
	assert_non_null(request(head, &a, out));
}

static void
answers_say_how_long_they_are(void **state)
{
	char out[HTTP_ANSWER_MAX], text[DIAL_TEXT_MAX + 100];
	size_t n;

	(void)state;
	memset(text, 'x', sizeof(text));
	n = http_answer(out, 431, "egress refused: ", text, sizeof(text));
	assert_true(n < HTTP_ANSWER_MAX);
	assert_non_null(strstr(out, "Content-Length: 273\r\n"));
	assert_int_equal(strlen(strstr(out, "\r\n\r\n") + 4), 273);
}

static void
socks_messages_are_taken_when_they_are_whole(void **state)
{
	static const uint8_t greeting[] = {5, 2, 1, 0, 5};
	static const uint8_t name[] = {5, 1, 0, 3, 2, 'a', 0, 1, 187, 9};
	enum socks_reply reply;
	struct ask a;
	size_t i;
	int fits;

	(void)state;
	for (i = 0; i < 4; i++)
		assert_int_equal(socks_greeting(greeting, i, &fits), 0);
	assert_int_equal(socks_greeting(greeting, 5, &fits), 4);
	assert_true(fits);
	for (i = 0; i < 9; i++)
		assert_int_equal(socks_request(name, i, &a, &reply), 0);
	assert_int_equal(socks_request(name, 10, &a, &reply), 9);
	assert_int_equal(reply, SOCKS_OK);
	assert_int_equal(a.port, 443);
	assert_int_equal(a.name_len, 2);
	assert_memory_equal(a.name, "a", 2);
	assert_int_equal(socks_greeting(name + 1, 1, &fits), -1);
}

static void
hosts_names_are_those_with_addresses_of_their_own(void **state)
{
	static const char text[] =
	    "127.0.0.1 localhost\n127.64.0.1 a.b c\td # e\n#127.64.0.2 f\n 127.64.1.255  g\r\n"
	    "127.64.0.256 h\n127.64.0 i\n127.64.0.1.2 j\n127.64.00.1 k\n127.064.0.1 l\n127.64.0.9\n"
	    "1127.64.0.1 m\n::1 n\n127.64.3.4 last";
	static const struct {
		const char *name;
		uint8_t high, low;
	} want[] = {{"a.b", 0, 1}, {"c", 0, 1}, {"d", 0, 1}, {"g", 1, 255}, {"last", 3, 4}};
	struct hosts_name h;
	size_t at = 0, i;

	(void)state;
	for (i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		assert_int_equal(hosts_next(text, sizeof(text) - 1, &at, &h), 1);
		assert_int_equal(h.len, strlen(want[i].name));
		assert_memory_equal(h.name, want[i].name, h.len);
		assert_int_equal(h.address[2], want[i].high);
		assert_int_equal(h.address[3], want[i].low);
	}
	assert_int_equal(hosts_next(text, sizeof(text) - 1, &at, &h), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(head_ends_at_the_first_empty_line),
	    cmocka_unit_test(absolute_url_becomes_origin_form),
	    cmocka_unit_test(connection_options_go_but_not_what_frames_the_body),
	    cmocka_unit_test(connect_keeps_nothing_of_its_head),
	    cmocka_unit_test(the_longest_name_fits_and_no_longer_one),
	    cmocka_unit_test(answers_say_how_long_they_are),
	    cmocka_unit_test(socks_messages_are_taken_when_they_are_whole),
	    cmocka_unit_test(hosts_names_are_those_with_addresses_of_their_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
