/* GET /healthz, and GET /health for clients of runs: managerd's word about the engine; and when it
 * has none, because its disk hangs, say, that. */
#include <event2/buffer.h>
#include <event2/event.h>

#include "apid/apid.h"
#include "apid/json_out.h"
#include "apid/managerd.h"
#include "apid/route.h"
#include "common/log.h"

/* managerd itself waits less than two seconds for the engine. */
static const struct timeval patience = {3, 0};

static void
forget_timer(struct req *r)
{
	event_free(r->state);
	r->state = NULL;
}

static void
on_silence(evutil_socket_t fd, short what, void *arg)
{
	struct req *r = arg;

	(void)fd;
	(void)what;
	call_forget(r->call);
	r->call = 0;
	req_error(r, 503, SILENT_TEXT);
}

/* Refused, or the engine is down. */
static int
is_ill(struct req *r, const struct answer *a)
{
	const struct m_health *h = a->payload;

	r->call = 0;
	if (a->type == MSG_REPLY)
		req_pass_on(r, a);
	else if (!h->engine_up)
		req_error_text(r, 502, 0, a->tail, a->tail_len);
	else
		return 0;
	return 1;
}

static void
on_health(void *arg, const struct answer *a)
{
	struct req *r = arg;
	const struct m_health *h = a->payload;
	struct evbuffer *body;

	if (is_ill(r, a))
		return;
	body = buffer_new();
	evbuffer_add_printf(body,
	    "{\"status\":\"ok\",\"backend\":\"docker\",\"version\":\"" VERSION "\","
	    "\"confinement\":\"%s\",\"workspace_quota\":\"%s\"}",
	    h->partial ? "partial" : "full", h->hard_quota ? "hard" : "soft");
	req_reply(r, 200, body);
}

static void
on_health_short(void *arg, const struct answer *a)
{
	struct req *r = arg;
	struct evbuffer *body;

	if (is_ill(r, a))
		return;
	body = buffer_new();
	evbuffer_add_printf(
	    body, "{\"status\":\"ok\",\"version\":\"" VERSION "\",\"backend\":\"docker\"}");
	req_reply(r, 200, body);
}

static void
ask_health(struct req *r, call_cb cb)
{
	struct m_none_am none = {0};

	if ((r->call = call_new(CALL_HEALTH, cb, r)) == 0) {
		req_overloaded(r);
		return;
	}
	if ((r->state = evtimer_new(apid.base, on_silence, r)) == NULL)
		fatalx("evtimer_new");
	r->cleanup = forget_timer;
	evtimer_add((struct event *)r->state, &patience);
	send_ASK_HEALTH(apid.managerd, r->call, &none, NULL, 0, -1);
}

void
health_get(struct req *r)
{
	ask_health(r, on_health);
}

void
health_short(struct req *r)
{
	ask_health(r, on_health_short);
}
