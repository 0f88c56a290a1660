// The head of the answer to an attach: exactly its bytes are the head, however they arrive.
// link: dockerd-proxy/head.o
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "dockerd-proxy/head.h"

static void
head_ends_where_the_stream_begins(void **state)
{
	static const char text[] = "HTTP/1.1 101 UPGRADED\r\nUpgrade: tcp\r\n\r\n\r\n\r\nstream";
	size_t whole = sizeof("HTTP/1.1 101 UPGRADED\r\nUpgrade: tcp\r\n\r\n") - 1, len;
	int status;

	(void)state;
	for (size_t n = 0; n < sizeof(text); n++) {
		status = 0, len = 0;
		assert_int_equal(head_parse(text, n, &status, &len), n >= whole);
		if (n >= whole) {
			assert_int_equal(status, 101);
			assert_int_equal(len, whole);
		}
	}
}

static void
what_is_no_head_is_refused_at_once(void **state)
{
	static const char *const bad[] = {"x", "HTTP/1.0 101 x\r\n\r\n", "HTTP/2 101 x\r\n\r\n",
	    "http/1.1 101 x\r\n\r\n", "HTTP/1.1 1x1 x\r\n\r\n", "HTTP/1.1 \r\n\r\n",
	    "HTTP/1.1 1\r\n\r\n", "HTTP/1.1 -11\r\n\r\n", "\r\n\r\n"};
	int status;
	size_t len;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(head_parse(bad[i], strlen(bad[i]), &status, &len), -1);
}

static void
head_without_end_is_refused(void **state)
{
	char text[HEAD_MAX];
	int status;
	size_t len;

	(void)state;
	memset(text, 'a', sizeof(text));
	memcpy(text, "HTTP/1.1 101 ", 13);
	assert_int_equal(head_parse(text, HEAD_MAX - 1, &status, &len), 0);
	assert_int_equal(head_parse(text, HEAD_MAX, &status, &len), -1);
	memcpy(text + HEAD_MAX - 4, "\r\n\r\n", 4);
	assert_int_equal(head_parse(text, HEAD_MAX, &status, &len), 1);
	assert_int_equal(len, HEAD_MAX);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(head_ends_where_the_stream_begins),
	    cmocka_unit_test(what_is_no_head_is_refused_at_once),
	    cmocka_unit_test(head_without_end_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
