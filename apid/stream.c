/* POST …/exec/stream: run a command and send its output as it comes, one JSON object a line. */
#include <event2/buffer.h>
#include <stdlib.h>
#include <string.h>

#include "apid/apid.h"
#include "apid/exec.h"
#include "apid/path.h"
#include "apid/route.h"
#include "common/base64.h"
#include "common/log.h"

#define STREAM_TYPE "application/x-ndjson"

struct stream {
	struct xfer x;
	struct output output[2]; /* stdout, stderr */
	struct evbuffer *line;
	uint8_t raw_input; /* the body of the request is the command's stdin */
	uint8_t begun;     /* the command runs: from now on a failure is a line */
};

static const char *const names[] = {"stdout", "stderr"};

/* One event; what is still incomplete waits for the next one of its stream, or with last becomes
 * U+FFFD. */
static void
write_event(struct stream *s, int which, const void *p, size_t n, int last)
{
	struct evbuffer *text = buffer_new();

	output_add(&s->output[which], text, p, n);
	if (last || s->output[which].as_base64)
		output_end(&s->output[which], text);
	if (evbuffer_get_length(text) > 0) {
		evbuffer_add_printf(s->line, "{\"type\":\"%s\",\"data\":\"", names[which]);
		evbuffer_add_buffer(s->line, text);
		evbuffer_add(s->line, "\"}\n", 3);
	}
	evbuffer_free(text);
}

static void
write_rest(struct stream *s)
{
	write_event(s, 0, "", 0, 1);
	write_event(s, 1, "", 0, 1);
}

/* The head of the answer, once. While standard input still comes it waits for the first output: a
 * proxy may hand on nothing more of a request that is being answered. */
static void
answer_begin(struct stream *s)
{
	struct req *r = s->x.r;

	if (r->started)
		return;
	req_header(r, "X-Accel-Buffering", "no");
	req_stream_start(r, 200, STREAM_TYPE, -1);
}

/* Whole when nothing was said before: then its head knows whether the rest of the input was read.
 */
static void
answer_end(struct stream *s)
{
	struct evbuffer *all;

	if (s->x.r->started) {
		req_stream_write(s->x.r, s->line);
		req_stream_end(s->x.r);
		return;
	}
	all = buffer_new();
	evbuffer_add_buffer(all, s->line);
	req_header(s->x.r, "Content-Type", STREAM_TYPE);
	req_reply(s->x.r, 200, all);
}

static void
end_with_error(struct stream *s, const char *text, size_t n)
{
	write_rest(s);
	evbuffer_add_printf(s->line, "{\"type\":\"error\",\"data\":");
	out_string(s->line, text, n);
	evbuffer_add(s->line, "}\n", 2);
	answer_end(s);
}

static void
on_broken(struct xfer *x, const char *text, size_t n)
{
	end_with_error((struct stream *)x, text, n);
}

static int
on_failed(struct xfer *x, int status, const char *text, size_t n)
{
	struct stream *s = (struct stream *)x;

	(void)status;
	if (!s->begun)
		return 0;
	end_with_error(s, text, n);
	return 1;
}

static void
going_down(struct req *r)
{
	end_with_error(r->state, "the server is going down", 24);
}

static void
input_end(struct xfer *x)
{
	data_send(x->data, RECORD_STDIN_END, NULL, 0);
	answer_begin((struct stream *)x);
}

static void
started(struct stream *s)
{
	s->begun = 1;
	s->x.r->going_down = going_down;
	if (s->raw_input)
		xfer_upload(&s->x, RECORD_STDIN, UINT64_MAX, "", input_end);
	else
		answer_begin(s);
}

static void
finish(struct stream *s, const struct r_exit *end)
{
	struct req *r = s->x.r;

	write_rest(s);
	evbuffer_add_printf(s->line,
	    "{\"type\":\"exit\",\"exit_code\":%d,\"timed_out\":%s,\"duration_ms\":%lld",
	    end->exit_code, end->timed_out ? "true" : "false",
	    (long long)(end->duration_us / 1000));
	if (r->detail)
		exec_detail(s->line, end);
	evbuffer_add(s->line, "}\n", 2);
	answer_end(s);
}

static void
on_record(struct xfer *x, uint8_t type, const uint8_t *p, size_t n)
{
	struct stream *s = (struct stream *)x;
	struct r_exit end;

	if ((type == RECORD_STARTED) == s->begun) {
		xfer_nonsense(x);
		return;
	}
	switch (type) {
	case RECORD_STARTED:
		started(s);
		break;
	case RECORD_STDOUT:
	case RECORD_STDERR:
		write_event(s, type == RECORD_STDERR, p, n, 0);
		if (evbuffer_get_length(s->line) == 0)
			break;
		answer_begin(s);
		xfer_write(x, s->line);
		break;
	case RECORD_EXIT:
		if (n == sizeof(end)) {
			memcpy(&end, p, sizeof(end));
			finish(s, &end);
			break;
		}
		/* FALLTHROUGH */
	default:
		xfer_nonsense(x);
	}
}

static void
stream_free(struct req *r)
{
	struct stream *s = r->state;

	xfer_close(&s->x);
	evbuffer_free(s->line);
	free(s);
	r->state = NULL;
}

/* ?request=: the JSON that the body has no place for. 0: r->json is set, or there was no such
 * parameter. */
static int
read_request_parameter(struct req *r, int *given)
{
	char value[TARGET_MAX + 1], text[TARGET_MAX + 1];
	size_t n, len;

	*given = 0;
	switch (query_get(r->query, "request", value, &n)) {
	case QUERY_NONE:
		return 0;
	case QUERY_GIVEN:
		*given = 1;
		if (base64_decode(value, n, 1, text, &len) == -1) {
			req_error(r, 422, "request: is not base64url");
			return -1;
		}
		if (json_parse(text, len, &r->json, &r->refusal) == -1) {
			req_refuse(r, &r->refusal);
			return -1;
		}
		return 0;
	default:
		req_error(r, 422, "request: malformed");
		return -1;
	}
}

void
exec_stream(struct req *r)
{
	static const struct xfer_ops ops = {.record = on_record,
	    .drained = xfer_uploaded,
	    .failed = on_failed,
	    .broken = on_broken};
	struct exec_request request;
	struct stream *s;
	int fd, as_base64, raw;

	if (read_request_parameter(r, &raw) == -1 ||
	    exec_prepare(r, r->json, &request, &as_base64) == -1)
		return;
	if ((s = calloc(1, sizeof(*s))) == NULL)
		fatal("calloc");
	s->line = buffer_new();
	s->output[0].as_base64 = s->output[1].as_base64 = as_base64;
	r->state = s;
	r->cleanup = stream_free;
	if (raw && req_has_body(r)) {
		s->raw_input = 1;
		r->slow_body = 1;
		if (request.input != NULL) {
			evbuffer_free(request.args);
			req_error(r, 400, "stdin: the body of the request is the stdin already");
			return;
		}
		request.job.stdin_follows = 1;
	}
	request.job.streamed = 1;
	if (xfer_open(&s->x, r, &ops, &fd) == -1) {
		evbuffer_free(request.args);
		return;
	}
	exec_start(&s->x, &request, fd);
	req_forget_body(r);
}
