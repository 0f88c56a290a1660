/* Turns output into JSON text, and keeps what a limit allows of it (output.h). */
#include <event2/buffer.h>
#include <string.h>

#include "apid/apid.h"
#include "apid/output.h"
#include "apid/req.h"

size_t
output_add(struct output *o, struct evbuffer *out, const void *p, size_t n)
{
	return o->as_base64 ? out_base64(out, &o->base64, p, n) : json_escape(out, &o->utf8, p, n);
}

size_t
output_end(struct output *o, struct evbuffer *out)
{
	return o->as_base64 ? out_base64_end(out, &o->base64) : json_escape_end(out, &o->utf8);
}

void
capture_init(struct capture *c, int64_t max, int as_base64)
{
	memset(c, 0, sizeof(*c));
	c->max = max;
	c->text[0] = buffer_new();
	c->text[1] = buffer_new();
	c->output[0].as_base64 = c->output[1].as_base64 = as_base64;
}

void
capture_free(struct capture *c)
{
	evbuffer_free(c->text[0]);
	evbuffer_free(c->text[1]);
}

void
capture_add(struct capture *c, struct req *r, int which, const uint8_t *p, size_t n)
{
	int64_t room = c->max - c->kept;
	size_t take = (int64_t)n <= room ? n : (size_t)room;

	if (c->cut[which] || req_hold(r, 0) == -1)
		take = 0;
	c->cut[which] |= take < n;
	c->kept += (int64_t)take;
	c->omitted += (int64_t)(n - take);
	req_hold(r, output_add(&c->output[which], c->text[which], p, take));
}

void
capture_write(struct capture *c, struct evbuffer *out)
{
	static const char *const names[] = {"stdout", "stderr"};
	int i;

	for (i = 0; i < 2; i++) {
		if (c->output[i].as_base64 || !c->cut[i])
			output_end(&c->output[i], c->text[i]);
		evbuffer_add_printf(out, "%s\"%s\":\"", i == 0 ? "" : ",", names[i]);
		evbuffer_add_buffer(out, c->text[i]);
		evbuffer_add(out, "\"", 1);
	}
}
