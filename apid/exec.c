/* POST …/exec: run a command to its end and answer with all of its output, up to a limit. */
#include <event2/buffer.h>
#include <stdlib.h>
#include <string.h>

#include "apid/apid.h"
#include "apid/exec.h"
#include "apid/managerd.h"
#include "apid/object.h"
#include "apid/path.h"
#include "apid/route.h"
#include "common/log.h"

struct exec {
	struct xfer x;
	struct capture output;
};

static int
query_word(struct req *r, const char *name, const char *off, const char *on, int *set)
{
	char value[TARGET_MAX + 1];
	size_t n;

	*set = 0;
	switch (query_get(r->query, name, value, &n)) {
	case QUERY_NONE:
		return 0;
	case QUERY_GIVEN:
		*set = strcmp(value, on) == 0;
		if ((*set || strcmp(value, off) == 0) && strlen(value) == n)
			return 0;
		break;
	default:
		break;
	}
	req_error(r, 422, "%s: must be %s or %s", name, off, on);
	return -1;
}

int
exec_prepare(struct req *r, json_t *body, struct exec_request *e, int *as_base64)
{
	struct exec_limits limits = {apid.config->num[CFG_DEFAULT_EXEC_TIMEOUT_SECONDS],
	    apid.config->num[CFG_MAX_EXEC_TIMEOUT_SECONDS]};
	uint8_t kill_others;
	int keep;

	if (r->id == 0) {
		object_unknown(r);
		return -1;
	}
	if (query_word(r, "encoding", "utf-8", "base64", as_base64) == -1 ||
	    query_word(r, "on_disconnect", "kill", "continue", &keep) == -1 ||
	    req_query_bool(r, "kill_others", &kill_others) == -1)
		return -1;
	if (exec_request_parse(body, &limits, e, &r->refusal) == -1) {
		req_refuse(r, &r->refusal);
		return -1;
	}
	e->job.keep = (uint8_t)keep;
	e->job.kill_others = kill_others;
	e->job.stdin_follows = e->input != NULL && json_string_length(e->input) > 0;
	r->leave_ends = !keep;
	r->goes_on = (uint8_t)keep;
	return 0;
}

void
exec_start(struct xfer *x, struct exec_request *e, int fd)
{
	struct req *r = x->r;
	struct m_exec m = {0};
	const char *p;
	size_t n, part;

	req_ask(r, &m.ask);
	m.sandbox = r->id;
	m.job = e->job;
	/* First, so that sessiond need not wait for them. */
	data_move(x->data, RECORD_ARGS, e->args, e->job.args_len);
	evbuffer_free(e->args);
	send_EXEC(apid.managerd, x->call, &m, NULL, 0, fd);
	if (e->input == NULL || json_string_length(e->input) == 0)
		return;
	p = json_string_value(e->input);
	for (n = json_string_length(e->input); n > 0; n -= part, p += part) {
		part = n < RECORD_MAX ? n : RECORD_MAX;
		data_send(x->data, RECORD_STDIN, p, part);
	}
	data_send(x->data, RECORD_STDIN_END, NULL, 0);
	req_hold(r, data_unsent(x->data)); /* in place of the body, which is given back now */
}

static const char *
signal_name(unsigned number)
{
	static const char *const names[] = {"", "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS",
	    "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT",
	    "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO",
	    "PWR", "SYS"};

	return number < sizeof(names) / sizeof(names[0]) ? names[number] : "RT";
}

void
exec_detail(struct evbuffer *out, const struct r_exit *e)
{
	evbuffer_add_printf(out,
	    ",\"oom_killed\":%s,\"usage\":{\"cpu_ms\":%lld,\"peak_memory_bytes\":",
	    e->oom_killed ? "true" : "false", (long long)(e->cpu_us / 1000));
	if (e->peak_memory_bytes >= 0)
		evbuffer_add_printf(out, "%lld}", (long long)e->peak_memory_bytes);
	else
		evbuffer_add(out, "null}", 5);
	if (e->signal != 0)
		evbuffer_add_printf(out, ",\"signal\":\"%s\"", signal_name(e->signal));
	else
		evbuffer_add_printf(out, ",\"signal\":null");
}

static void
answer(struct exec *e, const struct r_exit *end)
{
	struct req *r = e->x.r;
	struct evbuffer *out = buffer_new();

	evbuffer_add(out, "{", 1);
	capture_write(&e->output, out);
	evbuffer_add_printf(out,
	    ",\"exit_code\":%d,\"timed_out\":%s,\"truncated\":%s,\"duration_ms\":%lld",
	    end->exit_code, end->timed_out ? "true" : "false",
	    e->output.omitted > 0 ? "true" : "false", (long long)(end->duration_us / 1000));
	if (r->detail) {
		exec_detail(out, end);
		evbuffer_add_printf(out, ",\"omitted_bytes\":%lld", (long long)e->output.omitted);
	}
	evbuffer_add(out, "}", 1);
	req_reply(r, 200, out);
}

static void
on_record(struct xfer *x, uint8_t type, const uint8_t *p, size_t n)
{
	struct exec *e = (struct exec *)x;
	struct r_exit end;

	switch (type) {
	case RECORD_STARTED:
		break;
	case RECORD_STDOUT:
	case RECORD_STDERR:
		capture_add(&e->output, x->r, type == RECORD_STDERR, p, n);
		break;
	case RECORD_EXIT:
		if (n == sizeof(end)) {
			memcpy(&end, p, sizeof(end));
			answer(e, &end);
			break;
		}
		/* FALLTHROUGH */
	default:
		xfer_nonsense(x);
	}
}

static void
exec_free(struct req *r)
{
	struct exec *e = r->state;

	xfer_close(&e->x);
	capture_free(&e->output);
	free(e);
	r->state = NULL;
}

void
exec_run(struct req *r)
{
	static const struct xfer_ops ops = {.record = on_record};
	struct exec_request request;
	struct exec *e;
	int fd, as_base64;

	if (exec_prepare(r, r->json, &request, &as_base64) == -1)
		return;
	if ((e = calloc(1, sizeof(*e))) == NULL)
		fatal("calloc");
	capture_init(&e->output, apid.config->num[CFG_MAX_EXEC_OUTPUT_BYTES], as_base64);
	r->state = e;
	r->cleanup = exec_free;
	if (xfer_open(&e->x, r, &ops, &fd) == -1) {
		evbuffer_free(request.args);
		return;
	}
	exec_start(&e->x, &request, fd);
}
