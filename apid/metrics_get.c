/*
 * GET /metrics: managerd is asked, which also decides whether the key may see it, and the parent,
 * of which a word that is not a second old is enough. Neither is waited for for long: when
 * something hangs is when the numbers are looked at.
 */
#include <bsd/sys/queue.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

#include "apid/apid.h"
#include "apid/gate.h"
#include "apid/managerd.h"
#include "apid/metrics.h"
#include "apid/route.h"
#include "common/ids.h"
#include "common/log.h"
#include "proto/parent.h"

#define FRESH_US 1000000

static const struct timeval patience = {2, 0};

struct scrape {
	TAILQ_ENTRY(scrape) entry;
	struct req *r;
	struct evbuffer *theirs; /* managerd's part, as far as it has come */
	struct metrics_part part;
	struct event *timer;
	int answered; /* managerd has said all */
};

static TAILQ_HEAD(, scrape) scrapes = TAILQ_HEAD_INITIALIZER(scrapes);
static struct m_figures figures;
static int64_t figures_us; /* CLOCK_BOOTTIME; 0: there are none */
static int asked;

static void
scrape_free(struct req *r)
{
	struct scrape *s = r->state;

	TAILQ_REMOVE(&scrapes, s, entry);
	evbuffer_free(s->theirs);
	event_free(s->timer);
	free(s);
	r->state = NULL;
}

static int
is_fresh(void)
{
	return figures_us != 0 && time_boot_us() - figures_us < FRESH_US;
}

static void
write_figures(struct evbuffer *out)
{
	if (figures_us == 0)
		return;
	metrics_head(out, METRIC_restarts_total);
	metrics_value(out, METRIC_restarts_total, "", figures.restarts);
	metrics_head(out, METRIC_program_processes);
	metrics_row(out, METRIC_program_processes, 0, figures.processes, "");
	metrics_head(out, METRIC_program_memory_bytes);
	metrics_row(out, METRIC_program_memory_bytes, 0, figures.memory, "");
	metrics_head(out, METRIC_program_descriptors);
	metrics_row(out, METRIC_program_descriptors, 0, figures.descriptors, "");
}

static void
finish(struct scrape *s)
{
	struct evbuffer *body = buffer_new();
	struct req *r = s->r;

	metrics_own(body, s->answered);
	write_figures(body);
	if (s->answered)
		evbuffer_add_buffer(body, s->theirs);
	req_header(r, "Content-Type", "text/plain; version=0.0.4; charset=utf-8");
	req_reply(r, 200, body);
}

static void
finish_if_whole(struct scrape *s)
{
	if (s->answered && is_fresh())
		finish(s);
}

static void
on_metric(void *arg, const struct answer *a)
{
	struct req *r = arg;
	struct scrape *s = r->state;
	const struct m_reply *reply = a->payload;
	const char *why;

	if (a->type == MSG_METRIC) {
		if ((why = metrics_take(&s->part, s->theirs, a->payload, a->tail, a->tail_len)) !=
		    NULL)
			fatalx("managerd sends %s", why);
		return;
	}
	r->call = 0;
	if (reply->status != 200) {
		req_pass_on(r, a);
		return;
	}
	r->authed = 1;
	s->answered = 1;
	finish_if_whole(s);
}

static void
on_silence(evutil_socket_t fd, short what, void *arg)
{
	struct req *r = arg;
	struct scrape *s = r->state;

	(void)fd;
	(void)what;
	if (!s->answered && !r->conn->metrics) {
		req_error(r, 503, SILENT_TEXT);
		return;
	}
	finish(s);
}

void
metrics_figures(const struct m_figures *f)
{
	struct scrape *s, *next;

	figures = *f;
	figures_us = time_boot_us();
	asked = 0;
	for (s = TAILQ_FIRST(&scrapes); s != NULL; s = next) {
		next = TAILQ_NEXT(s, entry);
		finish_if_whole(s);
	}
}

static void
ask_parent(void)
{
	const struct m_none none = {0};

	if (asked || is_fresh())
		return;
	asked = 1;
	send_P_ASK_FIGURES(apid.parent, 0, &none, NULL, 0, -1);
}

void
metrics_get(struct req *r)
{
	struct m_metrics ask = {.open = r->conn->metrics};
	struct scrape *s;

	if ((r->call = call_new(CALL_METRICS, on_metric, r)) == 0) {
		req_overloaded(r);
		return;
	}
	if ((s = calloc(1, sizeof(*s))) == NULL ||
	    (s->timer = evtimer_new(apid.base, on_silence, r)) == NULL)
		fatal("metrics");
	s->r = r;
	s->theirs = buffer_new();
	TAILQ_INSERT_TAIL(&scrapes, s, entry);
	r->state = s;
	r->cleanup = scrape_free;
	evtimer_add(s->timer, &patience);
	ask_parent();
	req_ask(r, &ask.ask);
	send_METRICS(apid.managerd, r->call, &ask, NULL, 0, -1);
}
