/* Bodies: taken out of the raw input step by step, for a handler or for nobody (gate.h). */
#include <event2/buffer.h>
#include <string.h>

#include "apid/gate_listen.h"
#include "common/log.h"

/* One step of the body in raw: *n bytes of data stand at its start. 1: go on, 0: wait, 2: it is
 * over, -1: malformed. */
static int
step_body(struct conn *c, size_t *n)
{
	size_t have = evbuffer_get_length(c->raw), used;
	const char *p = NULL;
	enum chunk_step step;

	*n = 0;
	if (!c->r.head.chunked) {
		*n = have < c->left ? have : (size_t)c->left;
		c->left -= *n;
		if (*n > 0)
			return 1;
		return c->left == 0 ? 2 : 0;
	}
	if (c->chunk.state != CHUNK_DATA) {
		size_t look = have < CHUNK_LINE_MAX + 2 ? have : CHUNK_LINE_MAX + 2;

		if (look == 0)
			return 0;
		if ((p = (const char *)evbuffer_pullup(c->raw, (ev_ssize_t)look)) == NULL)
			fatal("evbuffer_pullup");
		have = look;
	}
	step = chunk_step(&c->chunk, p, have, &used);
	switch (step) {
	case STEP_DATA:
		*n = used;
		return 1;
	case STEP_MORE:
		return 0;
	case STEP_BAD:
		return -1;
	default:
		evbuffer_drain(c->raw, used);
		return step == STEP_OVER ? 2 : 1;
	}
}

void
gate_run_body(struct conn *c)
{
	struct req *r = &c->r;
	size_t n;
	int step;

	while (c->state == GATE_BODY && c->accepted && !c->paused && r->on_body != NULL) {
		if ((step = step_body(c, &n)) == 0)
			break;
		if (step == -1) {
			c->r.head.close = 1;
			c->accepted = 0;
			req_error(r, 400, "malformed chunked body");
			return;
		}
		if (step == 2) {
			c->state = GATE_WAIT;
			r->on_body_end(r);
			break;
		}
		c->got += n;
		if (c->got > c->max) {
			evbuffer_drain(c->raw, n);
			req_error(r, 413, "%s", c->too_large);
			return;
		}
		if (n > 0)
			r->on_body(r, c->raw, n);
	}
	if (c->state != GATE_CLOSING)
		gate_flow(c);
}

int
gate_body_skip(struct conn *c)
{
	size_t n, skipped = 0;
	int step;

	if (c->state != GATE_BODY)
		return 1;
	while ((step = step_body(c, &n)) == 1) {
		evbuffer_drain(c->raw, n);
		if ((skipped += n) > SKIP_MAX)
			return 0;
	}
	if (step == 2)
		c->state = GATE_WAIT;
	return step == 2 ? 1 : step;
}

void
gate_body_accept(struct conn *c, uint64_t max, const char *too_large)
{
	static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";

	c->max = max;
	c->too_large = too_large;
	if (!c->accepted) {
		c->accepted = 1;
		c->rate_since = gate_tick();
		c->rate_got = 0;
		if (c->r.head.expect && c->got == 0 && evbuffer_get_length(c->raw) == 0 &&
		    c->state == GATE_BODY)
			gate_write_raw(c, go_on, sizeof(go_on) - 1);
	}
	gate_kick(c);
}

void
gate_body_pause(struct conn *c, int on)
{
	if (c->paused == on)
		return;
	c->paused = on != 0;
	if (!on)
		gate_kick(c);
	else
		gate_flow(c);
}
