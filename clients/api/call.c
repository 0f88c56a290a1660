/* One call of the API on one handle of libcurl (api.h). */
#include <stdlib.h>
#include <string.h>

#include "clients/api/api.h"
#include "clients/api/event.h"
#include "clients/api/judge.h"
#include "clients/api/lines.h"
#include "clients/api/pem.h"
#include "common/log.h"

#define ANSWER_MAX ((size_t)64 << 20)
#define REFUSAL_MAX ((size_t)64 << 10)
#define EVENT_MAX ((size_t)16 << 20)
#define CONNECT_SECONDS 10L
#define STREAM_BUFFER (512L << 10)

struct api_call {
	const struct api_server *server;
	CURL *curl;
	struct curl_slist *headers;
	const char *type; /* header of the body's type; NULL: it has none */
	char *url;
	char *body;
	json_t *json;
	api_read *read;
	api_write *write;
	api_event *event;
	void *read_arg, *write_arg;
	struct lines lines;
	char *kept; /* the answer, or the beginning of one that says no */
	size_t kept_n, kept_room;
	int once;                /* doing it twice is not the same as doing it once */
	int sent;                /* it went out, or began to */
	int judged;              /* the head of the answer is known, and verdict with it */
	int wanted;              /* it is the answer that was asked for */
	struct api_error failed; /* set when a callback ended the call: kind is not API_OK */
	char said[CURL_ERROR_SIZE];
};

static void
must(CURLcode e)
{
	if (e != CURLE_OK)
		fatalx("libcurl: %s", curl_easy_strerror(e));
}

#define set(call, option, value) must(curl_easy_setopt((call)->curl, option, value))

void
api_start(void)
{
	static int started;

	if (!started && curl_global_init(CURL_GLOBAL_DEFAULT) != 0)
		fatalx("libcurl cannot start");
	started = 1;
}

static void
add_header(struct api_call *c, const char *line)
{
	struct curl_slist *more = curl_slist_append(c->headers, line);

	if (more == NULL)
		fatalx("no memory");
	c->headers = more;
}

void
api_call_header(struct api_call *c, const char *name, const char *value)
{
	size_t n = strlen(name) + strlen(value) + 3;
	char *line = malloc(n);

	if (line == NULL)
		fatal("header");
	stpcpy(stpcpy(stpcpy(line, name), ": "), value);
	add_header(c, line);
	explicit_bzero(line, n);
	free(line);
}

static void
head_of(struct api_call *c, struct judge_head *h)
{
	long status = 0;
	curl_off_t retry = 0;
	char *type = NULL, *location = NULL;

	curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_getinfo(c->curl, CURLINFO_CONTENT_TYPE, &type);
	curl_easy_getinfo(c->curl, CURLINFO_RETRY_AFTER, &retry);
	curl_easy_getinfo(c->curl, CURLINFO_REDIRECT_URL, &location);
	h->where = c->server->url;
	h->type = type;
	h->location = location;
	h->status = (int)status;
	h->retry_after = retry < 0 ? 0 : retry > 86400 ? 86400 : (int)retry;
	h->has_key = c->server->key != NULL;
}

static void
judge(struct api_call *c)
{
	enum judge_want want = c->event != NULL   ? WANT_EVENTS
			       : c->write != NULL ? WANT_BYTES
						  : WANT_JSON;
	struct judge_head head;

	if (c->judged)
		return;
	head_of(c, &head);
	c->judged = 1;
	c->wanted = judge_answer(&head, want, &c->failed) == 0;
}

static int
keep(struct api_call *c, const char *data, size_t n)
{
	if (n > c->kept_room - c->kept_n) {
		c->kept_room = (c->kept_n + n) * 2;
		if ((c->kept = realloc(c->kept, c->kept_room)) == NULL)
			fatal("answer of %zu bytes", c->kept_room);
	}
	memcpy(c->kept + c->kept_n, data, n);
	c->kept_n += n;
	return 0;
}

static int
on_line(void *arg, const char *line, size_t n)
{
	struct api_call *c = arg;
	json_t *event;
	int e;

	if (line == NULL)
		return judge_say(&c->failed, API_STRANGE, "%s sent a line of more than %zu bytes",
		    c->server->url, EVENT_MAX);
	event = event_read(line, n);
	if (!json_is_object(event)) {
		json_decref(event);
		return judge_say(&c->failed, API_STRANGE,
		    "%s sent a line that is not of this API: check proxies in between",
		    c->server->url);
	}
	e = c->event(c->write_arg, event);
	json_decref(event);
	return e == 0 ? 0 : judge_say(&c->failed, API_STOPPED, "stopped");
}

static int
take(struct api_call *c, const char *data, size_t n)
{
	if (!c->wanted) {
		size_t room = c->kept_n < REFUSAL_MAX ? REFUSAL_MAX - c->kept_n : 0;

		return keep(c, data, n < room ? n : room);
	}
	if (c->event != NULL)
		return lines_feed(&c->lines, data, n, on_line, c);
	if (c->write != NULL) {
		int e = c->write(c->write_arg, data, n);

		if (e == 0 || e == API_LATER)
			return e;
		return judge_say(&c->failed, API_STOPPED, "stopped");
	}
	if (n > ANSWER_MAX - c->kept_n)
		return judge_say(&c->failed, API_STRANGE,
		    "%s sent an answer of more than %zu bytes", c->server->url, ANSWER_MAX);
	return keep(c, data, n);
}

static size_t
on_data(char *data, size_t one, size_t n, void *arg)
{
	struct api_call *c = arg;

	(void)one;
	judge(c);
	/* An answer of something else ends here; one that says no is heard out. */
	if (!c->wanted && c->failed.kind != API_OK)
		return 0;
	if (!c->wanted && c->read != NULL) /* libcurl would wait for more of an upload */
		curl_easy_pause(c->curl, CURLPAUSE_CONT);
	switch (take(c, data, n)) {
	case 0:
		return n;
	case API_LATER:
		return CURL_WRITEFUNC_PAUSE;
	default:
		return 0;
	}
}

static size_t
on_read(char *buf, size_t one, size_t n, void *arg)
{
	struct api_call *c = arg;
	long status = 0;
	ssize_t got;

	curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &status);
	if (status >= 300) /* nobody wants it any more */
		return 0;
	got = c->read(c->read_arg, buf, one * n);
	if (got == API_LATER)
		return CURL_READFUNC_PAUSE;
	if (got < 0) {
		judge_say(&c->failed, API_STOPPED, "stopped");
		return CURL_READFUNC_ABORT;
	}
	return (size_t)got;
}

/*
 * Each time the request is about to go out. When a kept connection ends without an answer libcurl
 * sends a request again by itself, although the server may have done what it says.
 */
static int
on_sending(void *arg, char *to, char *from, int to_port, int from_port)
{
	struct api_call *c = arg;

	(void)to, (void)from, (void)to_port, (void)from_port;
	if (c->once && c->sent) {
		judge_say(&c->failed, API_BROKEN,
		    "the connection to %s broke before the answer came: what was done there is not "
		    "known",
		    c->server->url);
		return CURL_PREREQFUNC_ABORT;
	}
	c->sent = 1;
	return CURL_PREREQFUNC_OK;
}

/* A server on this machine is never asked for through a proxy: that would hand it the key. */
static int
is_loopback(const char *url)
{
	static const char *const hosts[] = {"127.", "localhost", "[::1]"};
	const char *host = strstr(url, "://");

	for (size_t i = 0; host != NULL && i < sizeof(hosts) / sizeof(hosts[0]); i++)
		if (strncasecmp(host + 3, hosts[i], strlen(hosts[i])) == 0)
			return 1;
	return 0;
}

static void
prepare(struct api_call *c)
{
	set(c, CURLOPT_URL, c->url);
	set(c, CURLOPT_PRIVATE, c);
	set(c, CURLOPT_ERRORBUFFER, c->said);
	set(c, CURLOPT_NOSIGNAL, 1L);
	set(c, CURLOPT_PROTOCOLS_STR, "http,https");
	set(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	set(c, CURLOPT_FOLLOWLOCATION, 0L);
	set(c, CURLOPT_TCP_NODELAY, 1L);
	/* A command may be silent for an hour; a host that has gone is noticed all the same. */
	set(c, CURLOPT_TCP_KEEPALIVE, 1L);
	set(c, CURLOPT_TCP_KEEPIDLE, 30L);
	set(c, CURLOPT_TCP_KEEPINTVL, 10L);
	set(c, CURLOPT_CONNECTTIMEOUT, CONNECT_SECONDS);
	set(c, CURLOPT_HEADEROPT, (long)CURLHEADER_SEPARATE);
	set(c, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
	set(c, CURLOPT_USERAGENT, "agent-sandbox/" VERSION);
	set(c, CURLOPT_WRITEFUNCTION, on_data);
	set(c, CURLOPT_WRITEDATA, c);
	set(c, CURLOPT_PREREQFUNCTION, on_sending);
	set(c, CURLOPT_PREREQDATA, c);
	if (strncasecmp(c->url, "https:", 6) == 0)
		pem_give(c->curl, c->server);
	if (is_loopback(c->url))
		set(c, CURLOPT_PROXY, "");
}

struct api_call *
api_call_new(const struct api_server *server, const char *method, const char *path)
{
	struct api_call *c = calloc(1, sizeof(*c));
	size_t n = strlen(server->url) + strlen(path) + 1;

	api_start();
	if (c == NULL || (c->url = malloc(n)) == NULL || (c->curl = curl_easy_init()) == NULL)
		fatalx("no memory");
	stpcpy(stpcpy(c->url, server->url), path);
	c->server = server;
	lines_init(&c->lines, EVENT_MAX);
	prepare(c);
	set(c, CURLOPT_CUSTOMREQUEST, method);
	c->once = strcmp(method, "POST") == 0;
	if (strcmp(method, "GET") != 0 && strcmp(method, "DELETE") != 0)
		api_call_bytes(c, "", 0);
	add_header(c, "Expect:");
	add_header(c, "Accept:");
	if (server->key != NULL)
		api_call_header(c, "X-API-Key", server->key);
	return c;
}

void
api_call_free(struct api_call *c)
{
	if (c == NULL)
		return;
	curl_easy_cleanup(c->curl);
	for (struct curl_slist *h = c->headers; h != NULL; h = h->next)
		explicit_bzero(h->data, strlen(h->data));
	curl_slist_free_all(c->headers);
	lines_free(&c->lines);
	json_decref(c->json);
	free(c->kept);
	free(c->body);
	free(c->url);
	free(c);
}

static void
send_body(struct api_call *c, char *body, size_t n)
{
	free(c->body);
	c->body = body;
	set(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)n);
	set(c, CURLOPT_POSTFIELDS, c->body);
}

void
api_call_body(struct api_call *c, json_t *body)
{
	char *text = json_dumps(body, JSON_COMPACT);

	if (text == NULL)
		fatalx("a body that is no JSON");
	json_decref(body);
	send_body(c, text, strlen(text));
	c->type = "Content-Type: application/json";
}

void
api_call_bytes(struct api_call *c, const char *data, size_t n)
{
	char *copy = malloc(n + 1);

	if (copy == NULL)
		fatal("body of %zu bytes", n);
	memcpy(copy, data, n);
	send_body(c, copy, n);
}

void
api_call_upload(struct api_call *c, int64_t size, api_read *read, void *arg)
{
	c->read = read;
	c->read_arg = arg;
	set(c, CURLOPT_POSTFIELDS, NULL);
	set(c, CURLOPT_UPLOAD, 1L);
	set(c, CURLOPT_INFILESIZE_LARGE, (curl_off_t)size);
	set(c, CURLOPT_READFUNCTION, on_read);
	set(c, CURLOPT_READDATA, c);
	set(c, CURLOPT_UPLOAD_BUFFERSIZE, STREAM_BUFFER);
}

void
api_call_download(struct api_call *c, api_write *write, void *arg)
{
	c->write = write;
	c->write_arg = arg;
	set(c, CURLOPT_BUFFERSIZE, STREAM_BUFFER);
}

void
api_call_events(struct api_call *c, api_event *event, void *arg)
{
	c->event = event;
	c->write_arg = arg;
}

void
api_call_timeout(struct api_call *c, double seconds)
{
	set(c, CURLOPT_TIMEOUT_MS, (long)(seconds * 1000));
}

CURL *
api_call_curl(struct api_call *c)
{
	/* Without a value libcurl leaves out the header, which it would make up. */
	add_header(c, c->type != NULL ? c->type : "Content-Type:");
	set(c, CURLOPT_HTTPHEADER, c->headers);
	return c->curl;
}

/* The answer is whole: what is it? */
static int
finish(struct api_call *c, struct api_error *e)
{
	if (c->event != NULL && lines_end(&c->lines, on_line, c) == -1) {
		*e = c->failed;
		return -1;
	}
	if (c->event != NULL || c->write != NULL || c->kept_n == 0)
		return 0;
	c->json = json_loadb(c->kept, c->kept_n, JSON_ALLOW_NUL, NULL);
	if (c->json != NULL)
		return 0;
	return judge_say(e, API_STRANGE,
	    "%s gave an answer that is not JSON: check AGENT_SANDBOX_URL, and proxies in between",
	    c->server->url);
}

int
api_call_done(struct api_call *c, CURLcode code, struct api_error *e)
{
	struct judge_head head;
	curl_off_t sent = 0;
	long verified = 0;

	memset(e, 0, sizeof(*e));
	e->retry_after = -1;
	head_of(c, &head);
	if (code == CURLE_OK || head.status >= 400)
		judge(c);
	if (c->failed.kind != API_OK) {
		*e = c->failed;
		return -1;
	}
	/* A server that says no may close before it has read all of an upload. */
	if (c->judged && !c->wanted) {
		judge_refusal(&head, c->kept, c->kept_n, e);
		if (code == CURLE_OK || e->kind == API_REFUSED)
			return -1;
	}
	if (code == CURLE_OK)
		return finish(c, e);
	curl_easy_getinfo(c->curl, CURLINFO_PRETRANSFER_TIME_T, &sent);
	curl_easy_getinfo(c->curl, CURLINFO_SSL_VERIFYRESULT, &verified);
	return judge_curl(code, c->server->url, c->said, sent > 0, verified, e);
}

int
api_call_run(struct api_call *c, struct api_error *e)
{
	static CURLM *multi; /* keeps the connections */
	int running = 1, left;
	CURLMsg *msg;
	CURLcode code = CURLE_FAILED_INIT;

	if (multi == NULL && (multi = curl_multi_init()) == NULL)
		fatalx("no memory");
	if (curl_multi_add_handle(multi, api_call_curl(c)) != CURLM_OK)
		fatalx("libcurl takes no call");
	while (running > 0) {
		if (curl_multi_perform(multi, &running) != CURLM_OK)
			fatalx("libcurl failed");
		if (running > 0 && curl_multi_poll(multi, NULL, 0, 1000, NULL) != CURLM_OK)
			fatalx("libcurl cannot wait");
	}
	while ((msg = curl_multi_info_read(multi, &left)) != NULL)
		if (msg->easy_handle == c->curl)
			code = msg->data.result;
	curl_multi_remove_handle(multi, c->curl);
	return api_call_done(c, code, e);
}

const json_t *
api_call_json(const struct api_call *c)
{
	return c->json;
}

int64_t
api_call_length(const struct api_call *c)
{
	curl_off_t n = -1;

	curl_easy_getinfo(c->curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &n);
	return n;
}
