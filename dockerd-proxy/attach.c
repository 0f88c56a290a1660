/*
 * The guest stream: an attach hijacked by hand, since no byte behind the answer's head may be read
 * here. Attached before started, because what PID 1 says while nobody is attached is lost.
 */
#include "dockerd-proxy/proxy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>
#include <bsd/string.h>
#include <event2/event.h>

#define HEAD_MAX 8192

struct attach {
	TAILQ_ENTRY(attach) entry;
	uint64_t id;
	char container[CONTAINER_ID_LEN + 1]; /* it may be forgotten meanwhile */
	int fd;
	struct event *ev;
};

static TAILQ_HEAD(, attach) attaches = TAILQ_HEAD_INITIALIZER(attaches);

int
head_parse(const char *p, size_t n, int *status, size_t *len)
{
	const char *end = memmem(p, n, "\r\n\r\n", 4);
	size_t known = n < 9 ? n : 9;

	if (memcmp(p, "HTTP/1.1 ", known) != 0)
		return -1;
	if (end == NULL)
		return n < HEAD_MAX ? 0 : -1;
	if (end - p < 12 || strspn(p + 9, "0123456789") != 3)
		return -1;
	*status = (p[9] - '0') * 100 + (p[10] - '0') * 10 + p[11] - '0';
	*len = (size_t)(end - p) + 4;
	return 1;
}

static void
attach_free(struct attach *a)
{
	struct owned *o = owned_find(a->container);

	if (o != NULL)
		o->attaching = 0;
	TAILQ_REMOVE(&attaches, a, entry);
	if (a->ev != NULL)
		event_free(a->ev);
	if (a->fd != -1)
		close(a->fd);
	free(a);
}

static void
attach_failed(struct attach *a, const char *what, int status, json_t *answer)
{
	log_answer(what, status, answer);
	reply_failed(a->id,
	    status == 0     ? FAIL_UNREACHABLE
	    : status == 404 ? FAIL_GONE
	    : status == 400 ? FAIL_BAD_IMAGE
			    : FAIL_ENGINE,
	    NULL);
	attach_free(a);
}

/* 304: it ran already. */
static void
on_started(void *arg, int status, json_t *answer)
{
	struct attach *a = arg;
	struct m_d_container m = {0};

	if (status != 204 && status != 304) {
		attach_failed(a, "start", status, answer);
		return;
	}
	strlcpy(m.container, a->container, sizeof(m.container));
	send_D_ATTACHED(proxy.manager, a->id, &m, NULL, 0, a->fd);
	a->fd = -1;
	attach_free(a);
}

static void
on_head(evutil_socket_t fd, short what, void *arg)
{
	struct attach *a = arg;
	char buf[HEAD_MAX];
	int status = 0, whole = -1;
	size_t len;

	if (what & EV_READ) {
		ssize_t n = recv(fd, buf, sizeof(buf), MSG_PEEK | MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		whole = n <= 0 ? -1 : head_parse(buf, (size_t)n, &status, &len);
	}
	if (whole == 0)
		return;
	if (whole < 0 || status != 101 || recv(fd, buf, len, MSG_DONTWAIT) != (ssize_t)len) {
		attach_failed(a, "attach", status, NULL);
		return;
	}
	event_free(a->ev);
	a->ev = NULL;
	engine_call(
	    &(struct engine_call){
		.method = "POST", .seconds = CALL_SECONDS, .arg = a, .done = on_started},
	    "/containers/%s/start", a->container);
}

static void
attach_open(struct attach *a)
{
	static const char fmt[] =
	    "POST /v1.%d/containers/%s/attach?stream=1&stdin=1&stdout=1 HTTP/1.1\r\n"
	    "Host: engine\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
	    "Content-Length: 0\r\n\r\n";
	char head[512];
	int n = snprintf(head, sizeof(head), fmt, proxy.minor, a->container);

	if ((a->fd = engine_socket()) == -1 ||
	    send(a->fd, head, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL) != n) {
		attach_failed(a, "attach", 0, NULL);
		return;
	}
	/* Edge-triggered: what is only peeked at would else be reported without end. */
	a->ev = event_new(proxy.base, a->fd, EV_READ | EV_PERSIST | EV_ET, on_head, a);
	if (a->ev == NULL || event_add(a->ev, &(struct timeval){.tv_sec = CALL_SECONDS}) != 0)
		fatalx("event_new");
}

static void
on_unpaused(void *arg, int status, json_t *answer)
{
	if (status == 204)
		attach_open(arg);
	else
		attach_failed(arg, "unpause", status, answer);
}

static void
on_state(void *arg, int status, json_t *answer)
{
	struct attach *a = arg;
	enum container_state state = state_parse(
	    json_string_value(json_object_get(json_object_get(answer, "State"), "Status")));

	if (status != 200 || state == STATE_GONE)
		attach_failed(a, "inspect", status == 200 ? 404 : status, answer);
	else if (state == STATE_PAUSED)
		engine_call(
		    &(struct engine_call){
			.method = "POST", .seconds = CALL_SECONDS, .arg = a, .done = on_unpaused},
		    "/containers/%s/unpause", a->container);
	else
		attach_open(a);
}

/* A second attach would hang behind a first one that is stalled. */
void
attach_start(uint64_t id, struct owned *o)
{
	struct attach *a = calloc(1, sizeof(*a));

	if (a == NULL)
		fatal("malloc");
	a->id = id;
	a->fd = -1;
	strlcpy(a->container, o->id, sizeof(a->container));
	TAILQ_INSERT_TAIL(&attaches, a, entry);
	if (o->attaching)
		fatalx("managerd: attaches to a container twice");
	o->attaching = 1;
	engine_get(on_state, a, "/containers/%s/json", a->container);
}

/* Those that wait for a call end with it; here are those that wait for the head. */
void
attach_abort(void)
{
	struct attach *a, *next;

	for (a = TAILQ_FIRST(&attaches); a != NULL; a = next) {
		next = TAILQ_NEXT(a, entry);
		if (a->ev != NULL)
			attach_failed(a, "attach", 0, NULL);
	}
}
