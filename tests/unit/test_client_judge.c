/* What an answer, or the lack of one, means. */
// link: clients/api/judge.o clients/api/text.o clients/api/path.o -lcurl -ljansson
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "clients/api/judge.h"

static const char url[] = "http://box:8080";

static struct judge_head
head(int status, const char *type)
{
	struct judge_head h = {url, type, NULL, status, 0, 1};

	return h;
}

static void
answer_fits_by_status_and_type(void **state)
{
	static const struct {
		int status;
		const char *type;
		enum judge_want want;
		int fits;
	} rows[] = {
	    {200, "application/json", WANT_JSON, 1},
	    {201, "application/json; charset=utf-8", WANT_JSON, 1},
	    {200, "Application/JSON", WANT_JSON, 1},
	    {204, NULL, WANT_JSON, 1},
	    {200, "application/jsonp", WANT_JSON, 0},
	    {200, "text/html", WANT_JSON, 0},
	    {200, NULL, WANT_JSON, 0},
	    {200, "application/x-ndjson", WANT_EVENTS, 1},
	    {200, "application/json", WANT_EVENTS, 0},
	    {204, NULL, WANT_EVENTS, 0},
	    {200, "application/octet-stream", WANT_BYTES, 1},
	    {200, "application/x-tar", WANT_BYTES, 1},
	    {200, "text/plain", WANT_BYTES, 0},
	    {302, "application/json", WANT_JSON, 0},
	    {0, "application/json", WANT_JSON, 1},
	};
	struct api_error e;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct judge_head h = head(rows[i].status, rows[i].type);
		int r = judge_answer(&h, rows[i].want, &e);

		assert_int_equal(r == 0, rows[i].fits);
		assert_int_equal(e.kind, rows[i].fits ? API_OK : API_STRANGE);
	}
}

static void
refusal_is_heard_before_it_is_judged(void **state)
{
	struct judge_head h = head(404, "application/json");
	struct api_error e;

	(void)state;
	assert_int_equal(judge_answer(&h, WANT_BYTES, &e), -1);
	assert_int_equal(e.kind, API_OK);
}

static void
redirect_says_where_to(void **state)
{
	struct judge_head h = head(301, NULL);
	struct api_error e;

	(void)state;
	h.location = "https://elsewhere/";
	assert_int_equal(judge_answer(&h, WANT_JSON, &e), -1);
	assert_int_equal(e.kind, API_STRANGE);
	assert_non_null(strstr(e.text, "https://elsewhere/"));
	assert_non_null(strstr(e.text, "AGENT_SANDBOX_URL"));
}

static void
refusal(struct judge_head h, const char *body, struct api_error *e)
{
	assert_int_equal(judge_refusal(&h, body, strlen(body), e), -1);
}

static void
refusal_keeps_the_servers_words(void **state)
{
	struct judge_head h = head(404, "application/json");
	struct api_error e;

	(void)state;
	refusal(h,
	    "{\"error\":{\"code\":\"not_found\",\"message\":\"no such\\nthing \\u001b[2J\"}}", &e);
	assert_int_equal(e.kind, API_REFUSED);
	assert_int_equal(e.status, 404);
	assert_int_equal(e.retry_after, -1);
	assert_string_equal(e.code, "not_found");
	assert_string_equal(e.text, "no such thing ?[2J");
}

static void
refusal_says_what_to_do(void **state)
{
	static const char body[] = "{\"error\":{\"code\":\"c\",\"message\":\"no\"}}";
	struct judge_head h = head(429, "application/json");
	struct api_error e;

	(void)state;
	h.retry_after = 17;
	refusal(h, body, &e);
	assert_int_equal(e.retry_after, 17);
	assert_string_equal(e.text, "no (try again in 17 s)");
	h.retry_after = 0;
	h.status = 401;
	refusal(h, body, &e);
	assert_non_null(strstr(e.text, "check AGENT_SANDBOX_API_KEY"));
	h.has_key = 0;
	refusal(h, body, &e);
	assert_non_null(strstr(e.text, "set AGENT_SANDBOX_API_KEY"));
}

static void
refusal_of_another_api_is_strange(void **state)
{
	static const char *const bodies[] = {"", "<html>", "{}", "{\"error\":\"no\"}",
	    "{\"error\":{\"code\":5,\"message\":\"x\"}}", "{\"error\":{\"code\":\"x\"}}", "[]",
	    "{\"message\":\"Not Found\"}"};
	struct api_error e;

	(void)state;
	for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
		refusal(head(502, "text/html"), bodies[i], &e);
		assert_int_equal(e.kind, API_STRANGE);
		assert_int_equal(e.status, 502);
		assert_non_null(strstr(e.text, url));
	}
}

static void
long_words_are_cut_to_a_line(void **state)
{
	char body[8192];
	struct api_error e;

	(void)state;
	memset(body, 'x', sizeof(body));
	memcpy(body, "{\"error\":{\"code\":\"", 18);
	memcpy(body + 4000, "\",\"message\":\"", 13);
	memcpy(body + 8000, "\"}}", 4);
	refusal(head(400, "application/json"), body, &e);
	assert_int_equal(e.kind, API_REFUSED);
	assert_int_equal(strlen(e.code), API_CODE_MAX - 1);
	assert_int_equal(strlen(e.text), API_TEXT_MAX - 1);
}

static void
lack_of_an_answer_is_unreachable_or_broken(void **state)
{
	static const struct {
		CURLcode code;
		int begun;
		enum api_kind kind;
	} rows[] = {
	    {CURLE_COULDNT_RESOLVE_HOST, 0, API_UNREACHABLE},
	    {CURLE_COULDNT_RESOLVE_PROXY, 0, API_UNREACHABLE},
	    {CURLE_COULDNT_CONNECT, 0, API_UNREACHABLE},
	    {CURLE_PEER_FAILED_VERIFICATION, 0, API_UNREACHABLE},
	    {CURLE_SSL_CONNECT_ERROR, 0, API_UNREACHABLE},
	    {CURLE_OPERATION_TIMEDOUT, 0, API_UNREACHABLE},
	    {CURLE_OPERATION_TIMEDOUT, 1, API_BROKEN},
	    {CURLE_GOT_NOTHING, 1, API_BROKEN},
	    {CURLE_PARTIAL_FILE, 1, API_BROKEN},
	    {CURLE_RECV_ERROR, 1, API_BROKEN},
	    {CURLE_SEND_ERROR, 1, API_BROKEN},
	    {CURLE_RECV_ERROR, 0, API_UNREACHABLE},
	    {CURLE_WEIRD_SERVER_REPLY, 1, API_STRANGE},
	    {CURLE_UNSUPPORTED_PROTOCOL, 1, API_STRANGE},
	    {CURLE_ABORTED_BY_CALLBACK, 1, API_STOPPED},
	};
	struct api_error e;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(judge_curl(rows[i].code, url, "", rows[i].begun, 0, &e), -1);
		assert_int_equal(e.kind, rows[i].kind);
		assert_int_equal(e.status, 0);
		assert_true(*e.text != '\0');
	}
	judge_curl(CURLE_SSL_CONNECT_ERROR, url, "said\x1b[2J", 0, 0, &e);
	assert_non_null(strstr(e.text, "said?[2J"));
}

static void
certificate_that_is_not_good_says_what_to_do(void **state)
{
	static const struct {
		CURLcode code;
		long verified;
		const char *said, *words;
	} rows[] = {
	    {CURLE_PEER_FAILED_VERIFICATION, 20, "unable to get local issuer certificate",
		"is not trusted"},
	    {CURLE_PEER_FAILED_VERIFICATION, 18, "self-signed certificate",
		"give the CA file with --cacert or AGENT_SANDBOX_CA_FILE"},
	    {CURLE_PEER_FAILED_VERIFICATION, 10, "certificate has expired", "has expired"},
	    {CURLE_PEER_FAILED_VERIFICATION, 9, "certificate is not yet valid", "clock"},
	    {CURLE_PEER_FAILED_VERIFICATION, 0, "no alternative certificate subject name",
		"of another name"},
	    {CURLE_PEER_FAILED_VERIFICATION, 1, "no alternative certificate subject name",
		"of another name"},
	    {CURLE_SSL_CACERT_BADFILE, 0, "error adding trust anchors", "AGENT_SANDBOX_CA_FILE"},
	    {CURLE_SSL_CERTPROBLEM, 0, "unable to set private key", "AGENT_SANDBOX_CLIENT_KEY"},
	    {CURLE_RECV_ERROR, 0,
		"OpenSSL SSL_read: error:0A00045C:SSL routines::tlsv13 alert certificate required",
		"AGENT_SANDBOX_CLIENT_CERT"},
	    {CURLE_SSL_CONNECT_ERROR, 0, "error: tlsv1 alert unknown ca",
		"AGENT_SANDBOX_CLIENT_CERT"},
	};
	struct api_error e;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		judge_curl(rows[i].code, url, rows[i].said, 1, rows[i].verified, &e);
		assert_int_equal(e.kind, API_UNREACHABLE);
		if (strstr(e.text, rows[i].words) == NULL)
			fail_msg("%s: no \"%s\"", e.text, rows[i].words);
	}
}

static void
path_escapes_what_others_named(void **state)
{
	char *path = api_path(
	    "/v1/%s/files?path=%s&n=%d&m=%lld&p=%%", "a/b", "x y&=\xc3\xa9+?", -3, 1LL << 40);

	(void)state;
	assert_string_equal(
	    path, "/v1/a%2Fb/files?path=x%20y%26%3D%C3%A9%2B%3F&n=-3&m=1099511627776&p=%");
	free(path);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(answer_fits_by_status_and_type),
	    cmocka_unit_test(refusal_is_heard_before_it_is_judged),
	    cmocka_unit_test(redirect_says_where_to),
	    cmocka_unit_test(refusal_keeps_the_servers_words),
	    cmocka_unit_test(refusal_says_what_to_do),
	    cmocka_unit_test(refusal_of_another_api_is_strange),
	    cmocka_unit_test(long_words_are_cut_to_a_line),
	    cmocka_unit_test(lack_of_an_answer_is_unreachable_or_broken),
	    cmocka_unit_test(certificate_that_is_not_good_says_what_to_do),
	    cmocka_unit_test(path_escapes_what_others_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
