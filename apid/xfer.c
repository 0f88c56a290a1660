/* Requests over a data socket (xfer.h). */
#include <event2/buffer.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "apid/apid.h"
#include "apid/gate_listen.h"
#include "apid/managerd.h"
#include "apid/xfer.h"
#include "common/log.h"

static void
fail(struct xfer *x, int status, uint32_t retry_after, const char *text, size_t n)
{
	struct req *r = x->r;

	r->authed = 1;
	if (!r->started && x->ops->failed != NULL && x->ops->failed(x, status, text, n))
		return;
	if (!r->started) {
		req_error_text(r, status, retry_after, text, n);
	} else if (x->ops->broken != NULL) {
		x->ops->broken(x, text, n);
	} else {
		log_request(r->request_id);
		if (gate_may_log())
			log_info("the answer is cut off: %.*s", (int)n, text);
		log_request(NULL);
		req_stream_abort(r);
	}
}

static void
lost(struct xfer *x)
{
	static const char text[] = "the sandbox's session was lost";

	fail(x, 502, 0, text, sizeof(text) - 1);
}

void
xfer_nonsense(struct xfer *x)
{
	log_request(x->r->request_id);
	log_warnx("a data socket brought a record that does not belong there");
	log_request(NULL);
	lost(x);
}

static void
on_error(struct xfer *x, const uint8_t *p, size_t n)
{
	struct r_error e;
	char range[64];

	if (n < sizeof(e) || n > sizeof(e) + TEXT_MAX) {
		xfer_nonsense(x);
		return;
	}
	memcpy(&e, p, sizeof(e));
	if (e.status == 416 && !x->r->started) {
		snprintf(range, sizeof(range), "bytes */%lld", (long long)e.size);
		req_header(x->r, "Content-Range", range);
	}
	fail(x, (int)e.status, e.retry_after, (const char *)p + sizeof(e), n - sizeof(e));
}

static void
on_record(void *arg, uint8_t type, const uint8_t *p, size_t n)
{
	struct xfer *x = arg;

	if (type == RECORD_ERROR)
		on_error(x, p, n);
	else
		x->ops->record(x, type, p, n);
}

/* Without a last record. managerd may have refused and dropped its end: its word is on the way
 * then. */
static void
on_end(void *arg)
{
	struct xfer *x = arg;

	x->ended = 1;
	if (x->accepted)
		lost(x);
}

static void
on_drained(void *arg)
{
	struct xfer *x = arg;

	if (x->ops->drained != NULL)
		x->ops->drained(x);
}

static void
on_reply(void *arg, const struct answer *a)
{
	struct xfer *x = arg;
	const struct m_reply *reply = a->payload;

	x->call = 0;
	if (reply->status >= 400) {
		fail(x, (int)reply->status, reply->retry_after, a->tail, a->tail_len);
		return;
	}
	x->accepted = 1;
	x->r->authed = 1;
	if (x->ended)
		lost(x);
	else if (x->ops->accepted != NULL)
		x->ops->accepted(x);
}

static void
on_malformed(void *arg)
{
	const struct xfer *x = arg;

	log_request(x->r->request_id);
	log_warnx("a data socket brought a malformed record");
	log_request(NULL);
}

int
xfer_open(struct xfer *x, struct req *r, const struct xfer_ops *ops, int *fd)
{
	static const struct data_ops data_ops = {on_record, on_end, on_malformed, on_drained};

	memset(x, 0, sizeof(*x));
	x->r = r;
	x->ops = ops;
	if ((x->data = data_new(&data_ops, x, fd)) == NULL) {
		req_overloaded(r);
		return -1;
	}
	if ((x->call = call_new(CALL_REPLY, on_reply, x)) == 0) {
		close(*fd);
		req_overloaded(r);
		return -1;
	}
	return 0;
}

void
xfer_close(struct xfer *x)
{
	data_free(x->data);
	x->data = NULL;
	if (x->call != 0)
		call_forget(x->call);
	x->call = 0;
}

static void
read_on(struct req *r)
{
	struct xfer *x = r->state;

	r->drained = NULL;
	data_pause(x->data, 0);
}

void
xfer_write(struct xfer *x, struct evbuffer *out)
{
	struct req *r = x->r;

	req_stream_write(r, out);
	if (req_stream_unsent(r) > STREAM_HIGH) {
		data_pause(x->data, 1);
		r->drained = read_on;
	}
}

static void
on_body(struct req *r, struct evbuffer *src, size_t n)
{
	struct xfer *x = r->state;
	size_t part;

	for (; n > 0; n -= part) {
		part = n < RECORD_MAX ? n : RECORD_MAX;
		data_move(x->data, x->upload_type, src, part);
	}
	if (data_unsent(x->data) > 0)
		req_body_pause(r, 1);
}

static void
on_body_end(struct req *r)
{
	struct xfer *x = r->state;

	x->upload_end(x);
}

void
xfer_uploaded(struct xfer *x)
{
	req_body_pause(x->r, 0);
}

void
xfer_upload(
    struct xfer *x, uint8_t type, uint64_t max, const char *too_large, void (*end)(struct xfer *))
{
	struct req *r = x->r;

	x->upload_type = type;
	x->upload_end = end;
	if (!req_has_body(r)) {
		end(x);
		return;
	}
	r->on_body = on_body;
	r->on_body_end = on_body_end;
	req_body(r, max, too_large);
}
