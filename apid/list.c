/* Lists (object.h): managerd gives pages; the answer is written as they come and waits for a slow
 * reader. */
#include <event2/buffer.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apid/apid.h"
#include "apid/object.h"
#include "apid/path.h"
#include "common/ids.h"
#include "common/log.h"

#define LIMIT_MAX 1000000

static void on_item(void *, const struct answer *);

static void
list_free(struct req *r)
{
	struct list *l = r->state;

	if (l->call != 0)
		call_forget(l->call);
	evbuffer_free(l->out);
	free(l);
	r->state = NULL;
}

/* 1 to LIMIT_MAX in *v, or -1. */
static int
parse_limit(const char *text, int64_t *v)
{
	char *end;

	*v = strtoll(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end != '\0' || *v < 1)
		return -1;
	if (*v > LIMIT_MAX)
		*v = LIMIT_MAX;
	return 0;
}

/* A cursor is the last item's time and id, which nobody but us need understand. */
static int
parse_cursor(const char *text, size_t n, struct m_list *ask)
{
	uint8_t bytes[16];

	if (n != 32 || hex_decode(text, bytes, sizeof(bytes)) == -1)
		return -1;
	memcpy(&ask->after_us, bytes, 8);
	memcpy(&ask->after_id, bytes + 8, 8);
	return ask->after_us < 0 || ask->after_id == 0 ? -1 : 0;
}

static void
write_cursor(struct list *l)
{
	uint8_t bytes[16];
	char text[33];

	memcpy(bytes, &l->last_us, 8);
	memcpy(bytes + 8, &l->last_id, 8);
	hex_encode(bytes, sizeof(bytes), text);
	evbuffer_add_printf(l->out, "\"%s\"", text);
}

struct list *
list_new(
    struct req *r, const char *name, enum call_kind kind, void (*send)(struct list *, uint32_t))
{
	char value[TARGET_MAX + 1];
	struct list *l = calloc(1, sizeof(*l));
	enum query_result q;
	size_t n;

	if (l == NULL)
		fatal("calloc");
	l->r = r;
	l->name = name;
	l->send = send;
	l->kind = kind;
	l->left = -1;
	l->out = buffer_new();
	r->state = l;
	r->cleanup = list_free;
	if ((q = query_get(r->query, "limit", value, &n)) != QUERY_NONE) {
		l->paged = 1;
		if (q == QUERY_BAD || strlen(value) != n || parse_limit(value, &l->left) == -1) {
			req_error(r, 422, "limit: must be an integer >= 1");
			return NULL;
		}
	}
	if ((q = query_get(r->query, "cursor", value, &n)) != QUERY_NONE && n > 0) {
		if (q == QUERY_BAD || parse_cursor(value, n, &l->ask) == -1) {
			req_error(r, 400, "cursor: is not one of ours");
			return NULL;
		}
	}
	evbuffer_add_printf(l->out, "{\"%s\":[", name);
	return l;
}

void
list_next(struct list *l)
{
	uint32_t max = l->left >= 0 && l->left < PAGE_MAX ? (uint32_t)l->left : PAGE_MAX;

	req_ask(l->r, &l->ask.ask);
	l->ask.max = max;
	if ((l->call = call_new(l->kind, on_item, l)) == 0)
		req_overloaded(l->r);
	else
		l->send(l, max);
}

static void
on_drained(struct req *r)
{
	struct list *l = r->state;

	r->drained = NULL;
	l->ask.after_us = l->last_us;
	l->ask.after_id = l->last_id;
	list_next(l);
}

static void
finish(struct list *l, int more)
{
	struct req *r = l->r;
	struct evbuffer *out = l->out;

	evbuffer_add_printf(out, "],\"next_cursor\":");
	if (more && l->items > 0)
		write_cursor(l);
	else
		evbuffer_add(out, "null", 4);
	evbuffer_add(out, "}", 1);
	if (!r->started) {
		l->out = buffer_new();
		req_reply(r, 200, out);
		return;
	}
	req_stream_write(r, out);
	req_stream_end(r);
}

/* A page is over: write it, and ask for the next one when the client has read enough. */
static void
page_end(struct list *l, int more)
{
	struct req *r = l->r;

	if (!more || l->left == 0) {
		finish(l, more);
		return;
	}
	if (!r->started)
		req_stream_start(r, 200, "application/json", -1);
	req_stream_write(r, l->out);
	r->drained = on_drained;
	if (req_stream_unsent(r) < STREAM_LOW)
		on_drained(r);
}

static void
on_item(void *arg, const struct answer *a)
{
	struct list *l = arg;
	const struct m_page_end *end = a->payload;
	const struct m_sandbox *sandbox = a->payload;
	const struct m_snapshot *snapshot = a->payload;

	if (a->type == MSG_REPLY) {
		l->call = 0;
		req_pass_on(l->r, a);
		return;
	}
	if (a->type == MSG_PAGE_END) {
		l->call = 0;
		page_end(l, end->more);
		return;
	}
	if (l->left == 0)
		fatalx("managerd sends more than was asked for");
	if (l->left > 0)
		l->left--;
	if (l->items++ > 0)
		evbuffer_add(l->out, ",", 1);
	if (a->type == MSG_SANDBOX) {
		object_sandbox(l->out, sandbox, a->tail, a->tail_len);
		l->last_us = sandbox->created_us;
		l->last_id = sandbox->id;
	} else {
		object_snapshot(l->out, snapshot, a->tail, a->tail_len);
		l->last_us = snapshot->created_us;
		l->last_id = snapshot->id;
	}
}
