/* What an answer, or the lack of one, means to the user (judge.h). */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "clients/api/judge.h"
#include "clients/api/text.h"

int
judge_say(struct api_error *e, enum api_kind kind, const char *fmt, ...)
{
	char text[API_TEXT_MAX * 2];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	memset(e, 0, sizeof(*e));
	e->kind = kind;
	e->retry_after = -1;
	text_line(text, strlen(text), e->text, sizeof(e->text));
	return -1;
}

/* "application/json; charset=utf-8" is "application/json". */
static int
type_is(const char *type, const char *want)
{
	size_t n = strlen(want);

	return type != NULL && strncasecmp(type, want, n) == 0 &&
	       (type[n] == '\0' || type[n] == ';' || type[n] == ' ');
}

static int
strange(const struct judge_head *h, struct api_error *e)
{
	judge_say(e, API_STRANGE,
	    "%s gave an answer that is not this API's (status %d, %.60s): check "
	    "AGENT_SANDBOX_URL, and proxies in between",
	    h->where, h->status, h->type == NULL || *h->type == '\0' ? "of no type" : h->type);
	e->status = h->status;
	return -1;
}

static int
redirect(const struct judge_head *h, struct api_error *e)
{
	judge_say(e, API_STRANGE,
	    "%s sends on to %.300s (status %d), which is not followed: set AGENT_SANDBOX_URL to "
	    "where the server is",
	    h->where, h->location != NULL ? h->location : "another place", h->status);
	e->status = h->status;
	return -1;
}

int
judge_answer(const struct judge_head *h, enum judge_want want, struct api_error *e)
{
	int fits = 0;

	memset(e, 0, sizeof(*e));
	e->retry_after = -1;
	if (h->status >= 300 && h->status < 400)
		return redirect(h, e);
	if (h->status >= 400)
		return -1;
	if (h->status == 204)
		return want == WANT_JSON ? 0 : strange(h, e);
	switch (want) {
	case WANT_JSON:
		fits = type_is(h->type, "application/json");
		break;
	case WANT_EVENTS:
		fits = type_is(h->type, "application/x-ndjson");
		break;
	case WANT_BYTES:
		fits = type_is(h->type, "application/octet-stream") ||
		       type_is(h->type, "application/x-tar");
		break;
	}
	return fits ? 0 : strange(h, e);
}

/* What to do about it, where the server's own words do not say so. */
static const char *
advice(const struct judge_head *h)
{
	if (h->status == 401 && !h->has_key)
		return "set AGENT_SANDBOX_API_KEY, or write the key to ~/.config/agent-sandbox/key";
	if (h->status == 401)
		return "check AGENT_SANDBOX_API_KEY or the file that the key comes from";
	return NULL;
}

int
judge_refusal(const struct judge_head *h, const char *body, size_t n, struct api_error *e)
{
	json_t *root = json_loadb(body, n, 0, NULL), *error = json_object_get(root, "error");
	const char *code = json_string_value(json_object_get(error, "code"));
	const char *message = json_string_value(json_object_get(error, "message"));
	const char *what = advice(h);

	if (code == NULL || message == NULL) {
		json_decref(root);
		return strange(h, e);
	}
	if (what != NULL)
		judge_say(e, API_REFUSED, "%s: %s", message, what);
	else if (h->retry_after > 0)
		judge_say(e, API_REFUSED, "%s (try again in %d s)", message, h->retry_after);
	else
		judge_say(e, API_REFUSED, "%s", message);
	e->status = h->status;
	if (h->retry_after > 0)
		e->retry_after = h->retry_after;
	text_line(code, strlen(code), e->code, sizeof(e->code));
	json_decref(root);
	return -1;
}

/* What libcurl says is trusted only for its length: it may quote the other side. */
static const char *
words(CURLcode code, const char *said)
{
	return said != NULL && *said != '\0' ? said : curl_easy_strerror(code);
}

/* Of X509_STORE_CTX_get_error(3). */
#define UNSPECIFIED 1
#define NOT_YET_VALID 9
#define EXPIRED 10

/* The server's certificate is not good: nothing was sent. */
static int
untrusted(long verified, const char *where, const char *said, struct api_error *e)
{
	switch (verified) {
	case 0: /* the chain is good, or was not looked at any more */
	case UNSPECIFIED:
		return judge_say(e, API_UNREACHABLE,
		    "the certificate of %s is of another name (%.300s): nothing was sent; ask for "
		    "a name that is in it",
		    where, said);
	case EXPIRED:
		return judge_say(e, API_UNREACHABLE,
		    "the certificate of %s has expired: nothing was sent; its server needs a new "
		    "one, if the clock here is right",
		    where);
	case NOT_YET_VALID:
		return judge_say(e, API_UNREACHABLE,
		    "the certificate of %s is not valid yet: nothing was sent; check the clock "
		    "here and there",
		    where);
	default:
		return judge_say(e, API_UNREACHABLE,
		    "the certificate of %s is not trusted (%.300s): nothing was sent; give the CA "
		    "file with --cacert or AGENT_SANDBOX_CA_FILE",
		    where, said);
	}
}

/* Whether the server ended TLS for want of a client certificate that it takes. With TLS 1.3 that
 * is heard only when the request is on its way, of which nothing was read there. */
static int
wants_certificate(const char *said)
{
	static const char *const alerts[] = {"alert certificate required", "alert unknown ca",
	    "alert bad certificate", "alert certificate expired", "alert certificate revoked",
	    "alert certificate unknown", "alert unsupported certificate"};

	for (size_t i = 0; i < sizeof(alerts) / sizeof(alerts[0]); i++)
		if (said != NULL && strcasestr(said, alerts[i]) != NULL)
			return 1;
	return 0;
}

static int
unreachable(CURLcode code, const char *where, const char *said, long verified, struct api_error *e)
{
	switch (code) {
	case CURLE_COULDNT_RESOLVE_HOST:
		return judge_say(e, API_UNREACHABLE,
		    "the host of %s is not known: check AGENT_SANDBOX_URL", where);
	case CURLE_COULDNT_RESOLVE_PROXY:
		return judge_say(e, API_UNREACHABLE,
		    "the proxy before %s is not known: check http_proxy, https_proxy and no_proxy",
		    where);
	case CURLE_COULDNT_CONNECT:
		return judge_say(e, API_UNREACHABLE,
		    "nothing answers at %s: start the server with \"agent-sandbox serve\", or set "
		    "AGENT_SANDBOX_URL",
		    where);
	case CURLE_OPERATION_TIMEDOUT:
		if (strncmp(words(code, said), "SSL", 3) == 0)
			return judge_say(e, API_UNREACHABLE,
			    "TLS with %s does not come about (%.200s): does the server speak https "
			    "there?",
			    where, words(code, said));
		return judge_say(e, API_UNREACHABLE,
		    "%s does not answer (%.200s): check AGENT_SANDBOX_URL and the network", where,
		    words(code, said));
	case CURLE_PROXY:
		return judge_say(e, API_UNREACHABLE,
		    "the proxy before %s refused (%.200s): check https_proxy and no_proxy", where,
		    words(code, said));
	case CURLE_PEER_FAILED_VERIFICATION:
		return untrusted(verified, where, words(code, said), e);
	case CURLE_SSL_CACERT_BADFILE:
		return judge_say(e, API_UNREACHABLE,
		    "the CA file cannot be used (%.300s): nothing was sent; check "
		    "AGENT_SANDBOX_CA_FILE or SSL_CERT_FILE",
		    words(code, said));
	case CURLE_SSL_CERTPROBLEM:
		return judge_say(e, API_UNREACHABLE,
		    "the client certificate or its key cannot be used (%.300s): nothing was sent; "
		    "check AGENT_SANDBOX_CLIENT_CERT and AGENT_SANDBOX_CLIENT_KEY",
		    words(code, said));
	default:
		return judge_say(e, API_UNREACHABLE,
		    "TLS with %s failed (%.300s): nothing was sent; does the server speak https "
		    "there?",
		    where, words(code, said));
	}
}

int
judge_curl(CURLcode code, const char *where, const char *said, int begun, long verified,
    struct api_error *e)
{
	if (wants_certificate(said))
		return judge_say(e, API_UNREACHABLE,
		    "%s does not take the client certificate, or wants one (%.200s): give it with "
		    "--cert or AGENT_SANDBOX_CLIENT_CERT",
		    where, said);
	switch (code) {
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_RESOLVE_PROXY:
	case CURLE_COULDNT_CONNECT:
	case CURLE_PROXY:
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_SSL_CERTPROBLEM:
	case CURLE_SSL_CIPHER:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_CRL_BADFILE:
	case CURLE_SSL_ISSUER_ERROR:
	case CURLE_SSL_ENGINE_INITFAILED:
	case CURLE_USE_SSL_FAILED:
		return unreachable(code, where, said, verified, e);
	case CURLE_OPERATION_TIMEDOUT:
		if (!begun)
			return unreachable(code, where, said, verified, e);
		return judge_say(e, API_BROKEN,
		    "%s did not finish its answer in time (%.200s): what was done there is not "
		    "known",
		    where, words(code, said));
	case CURLE_ABORTED_BY_CALLBACK:
		return judge_say(e, API_STOPPED, "stopped");
	case CURLE_OUT_OF_MEMORY:
		return judge_say(e, API_CONFIG, "no memory");
	case CURLE_WEIRD_SERVER_REPLY:
	case CURLE_UNSUPPORTED_PROTOCOL:
	case CURLE_BAD_CONTENT_ENCODING:
	case CURLE_HTTP2:
		return judge_say(e, API_STRANGE,
		    "%s does not speak HTTP as this API does (%.200s): check AGENT_SANDBOX_URL "
		    "(http or https?)",
		    where, words(code, said));
	default:
		return judge_say(e, begun ? API_BROKEN : API_UNREACHABLE,
		    "the connection to %s broke before the answer was whole (%.200s)", where,
		    words(code, said));
	}
}
