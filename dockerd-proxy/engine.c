/* HTTP calls to the engine over its socket: libcurl's multi interface on our event loop. */
#include "dockerd-proxy/proxy.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <curl/curl.h>
#include <event2/buffer.h>
#include <event2/event.h>

#define LINE_MAX_BYTES (256 * 1024)

struct call {
	TAILQ_ENTRY(call) entry;
	struct engine_call want;
	CURL *easy;
	struct curl_slist *headers;
	struct evbuffer *in;
	char *body;
};
TAILQ_HEAD(calls, call);

static struct calls calls = TAILQ_HEAD_INITIALIZER(calls);
static size_t ncalls, answer_max;
static CURLM *multi;
static struct event *timer;

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
		json_t *json = json_loadb(line, len, 0, NULL);
		if (json != NULL)
			c->want.line(c->want.arg, json);
		json_decref(json);
		free(line);
	}
	return size * n;
}

static void
call_end(struct call *c, int status)
{
	size_t len = evbuffer_get_length(c->in);
	json_t *json = NULL;

	curl_multi_remove_handle(multi, c->easy);
	if (status != 0 && len > 0)
		json = json_loadb((char *)evbuffer_pullup(c->in, -1), len, 0, NULL);
	c->want.done(c->want.arg, status, json);
	json_decref(json);
	curl_easy_cleanup(c->easy);
	curl_slist_free_all(c->headers);
	evbuffer_free(c->in);
	free(c->body);
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
		/* Engines answer an archive before they have read its padding, and then reset. */
		int reset = c->want.tar != NULL && status == 200 &&
			    (rc == CURLE_SEND_ERROR || rc == CURLE_RECV_ERROR);
		if (rc != CURLE_OK && !reset) {
			log_debug("engine: %s: %s", c->want.method, curl_easy_strerror(rc));
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
	struct event *ev = event_new(proxy.base, fd, bits, multi_socket, NULL);
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
	    curl_easy_setopt(e, CURLOPT_UNIX_SOCKET_PATH, SOCKET_PATH) != CURLE_OK ||
	    curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http") != CURLE_OK ||
	    curl_easy_setopt(e, CURLOPT_PROXY, "") != CURLE_OK ||
	    curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L) != CURLE_OK ||
	    curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, 2000L) != CURLE_OK ||
	    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L) != CURLE_OK)
		fatalx("curl_easy_setopt");
	return e;
}

/* The body, if any, belongs to the call, since libcurl does not copy it. */
static void
call_body(struct call *c)
{
	const char *type = "Content-Type:";
	const void *body = "";
	size_t len = 0;

	if (c->want.json != NULL) {
		if ((c->body = json_dumps(c->want.json, JSON_COMPACT)) == NULL)
			fatalx("json_dumps");
		json_decref(c->want.json);
		type = "Content-Type: application/json";
		body = c->body;
		len = strlen(c->body);
	} else if (c->want.tar != NULL) {
		type = "Content-Type: application/x-tar";
		body = c->want.tar;
		len = c->want.tar_len;
	}
	if (strcmp(c->want.method, "GET") != 0) {
		curl_easy_setopt(c->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)len);
		curl_easy_setopt(c->easy, CURLOPT_POSTFIELDS, body);
		curl_easy_setopt(c->easy, CURLOPT_CUSTOMREQUEST, c->want.method);
	}
	c->headers = curl_slist_append(curl_slist_append(NULL, type), "Expect:");
	curl_easy_setopt(c->easy, CURLOPT_HTTPHEADER, c->headers);
}

static void
call_start(const struct engine_call *want, const char *path)
{
	struct call *c = calloc(1, sizeof(*c));
	char version[16] = "", *url;

	/* Which version there is must be asked without one. */
	if (strcmp(path, "/version") != 0)
		snprintf(version, sizeof(version), "/v1.%d", proxy.minor);
	if (c == NULL || asprintf(&url, "http://engine%s%s", version, path) < 0 ||
	    (c->in = evbuffer_new()) == NULL)
		fatal("malloc");
	c->want = *want;
	c->easy = easy_new(url);
	log_debug("engine: %s %s", want->method, url + strlen("http://engine"));
	free(url);
	call_body(c);
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
engine_call(const struct engine_call *want, const char *fmt, ...)
{
	char *path;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&path, fmt, ap) < 0)
		fatal("malloc");
	va_end(ap);
	call_start(want, path);
	free(path);
}

void
engine_get(engine_done done, void *arg, const char *fmt, ...)
{
	struct engine_call want = {
	    .method = "GET", .seconds = CALL_SECONDS, .done = done, .arg = arg};
	char *path;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&path, fmt, ap) < 0)
		fatal("malloc");
	va_end(ap);
	call_start(&want, path);
	free(path);
}

void
engine_abort(void)
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
engine_calls(void)
{
	return ncalls;
}

int
engine_socket(void)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX, .sun_path = SOCKET_PATH};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd >= 0 && connect(fd, (struct sockaddr *)&sun, sizeof(sun)) != 0) {
		close(fd);
		return -1;
	}
	return fd;
}

char *
engine_filter(const char *key, const char *value, const char *name)
{
	json_t *json = json_pack("{s:[s++]}", "label", key, value[0] != '\0' ? "=" : "", value);
	char *text, *escaped;

	if (json == NULL)
		fatalx("json_pack");
	if (name != NULL)
		json_object_set_new(json, "name", json_pack("[s]", name));
	if ((text = json_dumps(json, JSON_COMPACT)) == NULL ||
	    (escaped = curl_easy_escape(NULL, text, 0)) == NULL)
		fatalx("json_dumps");
	json_decref(json);
	free(text);
	return escaped; /* libcurl's free is the C library's: no allocator of our own was set */
}

/* Everything that would be loaded or opened at the first call happens here, before the program is
 * confined. */
void
engine_init(void)
{
	answer_max = 1024 * 1024 + (size_t)proxy.config->num[CFG_MAX_SANDBOXES] * 8192;
	if (curl_global_init(CURL_GLOBAL_NOTHING) != 0 || (multi = curl_multi_init()) == NULL ||
	    (timer = evtimer_new(proxy.base, multi_timeout, NULL)) == NULL)
		fatalx("curl_global_init");
	curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, multi_want_socket);
	curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, multi_want_timer);
	CURL *e = easy_new("http://engine/_ping");
	curl_easy_setopt(e, CURLOPT_UNIX_SOCKET_PATH, "/nonexistent");
	curl_easy_perform(e);
	curl_easy_cleanup(e);
	json_object_seed(0);
}
