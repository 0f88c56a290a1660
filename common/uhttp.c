/* HTTP over a unix socket on the event loop; see uhttp.h. */
#include "common/uhttp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <curl/curl.h>
#include <event2/buffer.h>
#include <event2/event.h>

#include "common/log.h"

#define LINE_MAX_BYTES (256 * 1024)

struct call {
	TAILQ_ENTRY(call) entry;
	struct uhttp_call want;
	CURL *easy;
	struct curl_slist *headers;
	struct evbuffer *in;
};
TAILQ_HEAD(calls, call);

static struct calls calls = TAILQ_HEAD_INITIALIZER(calls);
static size_t ncalls, answer_max;
static CURLM *multi;
static struct event *timer;
static struct event_base *loop;
static const char *socket_path;

/* Lines are handed on as they come; any other answer is kept whole, up to a bound. */
static size_t
call_data(char *p, size_t size, size_t n, void *arg)
{
	struct call *c = arg;
	size_t len, max = c->want.line != NULL ? LINE_MAX_BYTES : answer_max;
	char *line;

	if (evbuffer_get_length(c->in) + size * n > max || evbuffer_add(c->in, p, size * n) != 0)
		return 0;
	while (c->want.line != NULL &&
	       (line = evbuffer_readln(c->in, &len, EVBUFFER_EOL_LF)) != NULL) {
		c->want.line(c->want.arg, line, len);
		free(line);
	}
	return size * n;
}

static void
call_end(struct call *c, int status)
{
	size_t len = evbuffer_get_length(c->in);

	curl_multi_remove_handle(multi, c->easy);
	if (evbuffer_add(c->in, "", 1) != 0)
		fatalx("out of memory");
	c->want.done(c->want.arg, status, (char *)evbuffer_pullup(c->in, -1), len);
	curl_easy_cleanup(c->easy);
	curl_slist_free_all(c->headers);
	evbuffer_free(c->in);
	free(c);
	ncalls--;
}

static void
multi_finished(void)
{
	struct call *c;
	CURLMsg *m;
	int left;

	while ((m = curl_multi_info_read(multi, &left)) != NULL) {
		CURLcode rc = m->data.result;
		long status = 0;
		curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&c);
		curl_easy_getinfo(m->easy_handle, CURLINFO_RESPONSE_CODE, &status);
		int reset = c->want.reset_is_fine && status == 200 &&
			    (rc == CURLE_SEND_ERROR || rc == CURLE_RECV_ERROR);
		if (rc != CURLE_OK && !reset) {
			log_debug("http: %s: %s", c->want.method, curl_easy_strerror(rc));
			status = 0;
		}
		TAILQ_REMOVE(&calls, c, entry);
		call_end(c, (int)status);
	}
}

static void
multi_socket(evutil_socket_t fd, short what, void *arg __attribute__((unused)))
{
	int running;
	int bits =
	    (what & EV_READ ? CURL_CSELECT_IN : 0) | (what & EV_WRITE ? CURL_CSELECT_OUT : 0);

	curl_multi_socket_action(multi, fd, bits, &running);
	multi_finished();
}

static void
multi_timeout(evutil_socket_t fd __attribute__((unused)), short what __attribute__((unused)),
    void *arg __attribute__((unused)))
{
	int running;

	curl_multi_socket_action(multi, CURL_SOCKET_TIMEOUT, 0, &running);
	multi_finished();
}

static int
multi_want_timer(CURLM *m __attribute__((unused)), long ms, void *arg __attribute__((unused)))
{
	struct timeval tv = {ms / 1000, ms % 1000 * 1000};

	if (ms < 0)
		evtimer_del(timer);
	else
		evtimer_add(timer, &tv);
	return 0;
}

static int
multi_want_socket(CURL *easy __attribute__((unused)), curl_socket_t fd, int what,
    void *arg __attribute__((unused)), void *old)
{
	if (old != NULL)
		event_free(old);
	curl_multi_assign(multi, fd, NULL);
	if (what == CURL_POLL_REMOVE)
		return 0;
	short bits = EV_PERSIST | (what & CURL_POLL_IN ? EV_READ : 0) |
		     (what & CURL_POLL_OUT ? EV_WRITE : 0);
	struct event *ev = event_new(loop, fd, bits, multi_socket, NULL);
	if (ev == NULL || event_add(ev, NULL) != 0)
		fatalx("event_new");
	curl_multi_assign(multi, fd, ev);
	return 0;
}

static CURL *
easy_new(const char *url)
{
	CURL *e = curl_easy_init();

	if (e == NULL || curl_easy_setopt(e, CURLOPT_URL, url) != CURLE_OK ||
	    curl_easy_setopt(e, CURLOPT_UNIX_SOCKET_PATH, socket_path) != CURLE_OK ||
	    curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http") != CURLE_OK ||
	    curl_easy_setopt(e, CURLOPT_PROXY, "") != CURLE_OK ||
	    curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L) != CURLE_OK ||
	    curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, 2000L) != CURLE_OK ||
	    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L) != CURLE_OK)
		fatalx("curl_easy_setopt");
	return e;
}

static struct curl_slist *
headers_new(const char *type)
{
	char *text;
	struct curl_slist *list;

	/* Without a value libcurl leaves a header out that it would add by itself. */
	if (asprintf(
		&text, "Content-Type:%s%s", type != NULL ? " " : "", type != NULL ? type : "") < 0)
		fatalx("out of memory");
	list = curl_slist_append(curl_slist_append(NULL, text), "Expect:");
	free(text);
	return list;
}

void
uhttp_call(const struct uhttp_call *want, const char *path)
{
	struct call *c = calloc(1, sizeof(*c));
	char *url;

	if (c == NULL || asprintf(&url, "http://engine%s", path) < 0 ||
	    (c->in = evbuffer_new()) == NULL)
		fatalx("out of memory");
	log_debug("http: %s %s", want->method, path);
	c->want = *want;
	c->easy = easy_new(url);
	free(url);
	c->headers = headers_new(want->type);
	curl_easy_setopt(c->easy, CURLOPT_HTTPHEADER, c->headers);
	if (strcmp(want->method, "GET") != 0) {
		curl_easy_setopt(c->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)want->len);
		curl_easy_setopt(c->easy, CURLOPT_POSTFIELDS, want->len > 0 ? want->body : "");
		curl_easy_setopt(c->easy, CURLOPT_CUSTOMREQUEST, want->method);
	}
	curl_easy_setopt(c->easy, CURLOPT_PRIVATE, c);
	curl_easy_setopt(c->easy, CURLOPT_WRITEFUNCTION, call_data);
	curl_easy_setopt(c->easy, CURLOPT_WRITEDATA, c);
	curl_easy_setopt(c->easy, CURLOPT_TIMEOUT_MS, want->seconds * 1000L);
	TAILQ_INSERT_TAIL(&calls, c, entry);
	ncalls++;
	if (curl_multi_add_handle(multi, c->easy) != CURLM_OK)
		fatalx("curl_multi_add_handle");
}

void
uhttp_abort(void)
{
	struct calls old = TAILQ_HEAD_INITIALIZER(old);
	struct call *c;

	TAILQ_CONCAT(&old, &calls, entry);
	while ((c = TAILQ_FIRST(&old)) != NULL) {
		TAILQ_REMOVE(&old, c, entry);
		call_end(c, 0);
	}
}

size_t
uhttp_calls(void)
{
	return ncalls;
}

char *
uhttp_escape(const char *text)
{
	char *escaped = curl_easy_escape(NULL, text, 0);

	if (escaped == NULL)
		fatalx("out of memory");
	return escaped; /* libcurl's free is the C library's, since it was given no other */
}

void
uhttp_init(struct event_base *base, const char *path, size_t max)
{
	loop = base;
	answer_max = max;
	if (curl_global_init(CURL_GLOBAL_NOTHING) != 0 || (multi = curl_multi_init()) == NULL ||
	    (timer = evtimer_new(loop, multi_timeout, NULL)) == NULL)
		fatalx("curl_global_init");
	curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, multi_want_socket);
	curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, multi_want_timer);
	/* A first call that fails at once: what libcurl loads or opens late is there before the
	 * confinement. */
	socket_path = "/nonexistent";
	CURL *e = easy_new("http://engine/");
	curl_easy_perform(e);
	curl_easy_cleanup(e);
	socket_path = path;
}
