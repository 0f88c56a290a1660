/*
 * The guest stream: an attach hijacked by hand, since no byte behind the answer's head may be read
 * here. It is attached before it is started, because what PID 1 says while nobody is attached is
 * lost.
 */
#include "dockerd-proxy/proxy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <bsd/string.h>
#include <bsd/sys/queue.h>
#include <event2/event.h>

#include "dockerd-proxy/head.h"

enum step { INSPECT, UNPAUSE, HEAD, START };

struct attach {
	TAILQ_ENTRY(attach) entry;
	uint64_t id;
	enum step step;
	int fd;
	struct event *ev;
	char container[72];
	size_t len; /* of the head, as far as it was read */
	char head[HEAD_MAX];
};

static TAILQ_HEAD(, attach) attaches = TAILQ_HEAD_INITIALIZER(attaches);

/* The end at whatever step. A start that answers 304 found it running. */
static void
attach_end(struct attach *a, int status, json_t *answer)
{
	struct owned *o = owned_find(a->container);
	struct m_d_container m = {0};
	enum d_failure why;

	if (a->step == START && (status == 204 || status == 304)) {
		strlcpy(m.container, a->container, sizeof(m.container));
		send_D_ATTACHED(proxy.manager, a->id, &m, NULL, 0, a->fd);
		a->fd = -1;
	} else {
		why = failure("attach", status, answer);
		if (status == 404)
			why = FAIL_GONE;
		else if (a->step == START && status == 400)
			why = FAIL_BAD_IMAGE;
		reply_failed(a->id, why, NULL);
	}
	if (o != NULL)
		o->attaching = 0;
	TAILQ_REMOVE(&attaches, a, entry);
	if (a->ev != NULL)
		event_free(a->ev);
	if (a->fd != -1)
		close(a->fd);
	free(a);
}

static void on_step(void *, int, json_t *);

static void
on_head(evutil_socket_t fd, short what, void *arg)
{
	struct attach *a = arg;
	char *end = a->head + a->len;
	int status = 0, whole = -1;
	size_t total = 0;
	ssize_t n = -1;

	if (what & EV_READ) {
		n = recv(fd, end, sizeof(a->head) - a->len, MSG_PEEK | MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n > 0)
			whole = head_parse(a->head, a->len + (size_t)n, &status, &total);
	}
	/* Only now is it known that these bytes are the head's. */
	if (whole == 0)
		total = a->len + (size_t)n;
	if (whole >= 0 && recv(fd, end, total - a->len, MSG_DONTWAIT) != (ssize_t)(total - a->len))
		whole = -1;
	if (whole == 0) {
		a->len = total;
		return;
	}
	if (whole < 0 || status != 101) {
		attach_end(a, status == 101 ? 0 : status, NULL);
		return;
	}
	/* Started always: so there is no moment in which it could have ended unseen. */
	event_free(a->ev);
	a->ev = NULL;
	a->step = START;
	ask("POST", NULL, on_step, a, "/containers/%s/start", a->container);
}

static void
attach_open(struct attach *a)
{
	static const char fmt[] =
	    "POST /v1.%d/containers/%s/attach?stream=1&stdin=1&stdout=1 HTTP/1.1\r\n"
	    "Host: engine\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
	    "Content-Length: 0\r\n\r\n";
	struct sockaddr_un sun = {.sun_family = AF_UNIX, .sun_path = SOCKET_PATH};
	char head[512];
	int n = snprintf(head, sizeof(head), fmt, proxy.minor, a->container);

	a->step = HEAD;
	if ((a->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) == -1 ||
	    connect(a->fd, (struct sockaddr *)&sun, sizeof(sun)) != 0 ||
	    send(a->fd, head, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL) != n) {
		attach_end(a, 0, NULL);
		return;
	}
	a->ev = event_new(proxy.base, a->fd, EV_READ | EV_PERSIST, on_head, a);
	if (a->ev == NULL || event_add(a->ev, &(struct timeval){.tv_sec = CALL_SECONDS}) != 0)
		fatalx("out of memory");
}

static void
on_step(void *arg, int status, json_t *answer)
{
	struct attach *a = arg;
	enum container_state state = a->step == INSPECT ? state_of(answer) : STATE_RUNNING;

	if (a->step == INSPECT && status == 200 && state == STATE_PAUSED) {
		a->step = UNPAUSE;
		ask("POST", NULL, on_step, a, "/containers/%s/unpause", a->container);
	} else if ((a->step == INSPECT && status == 200 && state != STATE_GONE) ||
		   (a->step == UNPAUSE && status == 204)) {
		attach_open(a);
	} else {
		attach_end(a, a->step == INSPECT && status == 200 ? 404 : status, answer);
	}
}

/* A second attach would hang behind a first one that is stalled. */
void
attach_start(uint64_t id, struct owned *o)
{
	struct attach *a = mem_new(sizeof(*a));

	if (o->attaching)
		fatalx("managerd: attaches to a container twice");
	o->attaching = 1;
	a->id = id;
	a->fd = -1;
	strlcpy(a->container, o->id, sizeof(a->container));
	TAILQ_INSERT_TAIL(&attaches, a, entry);
	ask("GET", NULL, on_step, a, "/containers/%s/json", a->container);
}

/* Those that wait for a call end with it; here are those that wait for the head. */
void
attach_abort(void)
{
	struct attach *a, *next;

	TAILQ_FOREACH_SAFE (a, &attaches, entry, next)
		if (a->ev != NULL)
			attach_end(a, 0, NULL);
}
