/*
 * POST /v1/run: one program in a sandbox of its own. The steps, each of which the one before starts
 * when it is over: make the sandbox, write the program's file, run it, and if a snapshot is wanted
 * take the file away and make one. However it ends, the sandbox is destroyed: struct run outlives
 * its request for as long as a sandbox is being made for it.
 */
#include <bsd/string.h>
#include <bsd/sys/queue.h>
#include <event2/buffer.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apid/apid.h"
#include "apid/data.h"
#include "apid/exec.h"
#include "apid/json_out.h"
#include "apid/managerd.h"
#include "apid/object.h"
#include "apid/route.h"
#include "apid/run_request.h"
#include "common/ids.h"
#include "common/log.h"

#define LIFE_SECONDS 300 /* of the sandbox beyond the program's limit: it ends if we do not */
#define LAST_WORDS 256   /* of standard error */

struct run {
	struct xfer x; /* the step under way */
	struct req *r; /* NULL: it is over, and only the sandbox has to go */
	LIST_ENTRY(run) entry;
	struct m_ask ask;
	uint64_t making;  /* the call of CREATE, until it is answered */
	uint64_t leaving; /* kept for DESTROY, so that there is one */
	uint64_t box;     /* 0: none */
	struct run_request want;
	struct evbuffer *code;
	int program; /* which one of the language's is tried */
	struct r_meta file;
	struct r_exit end;
	struct capture output;
	char last[LAST_WORDS]; /* of standard error */
	size_t last_len;
	char image[IMAGE_MAX + 1];
	uint8_t network;
	struct evbuffer *egress; /* its list, as JSON */
	uint64_t snapshot;
};

static LIST_HEAD(, run) all = LIST_HEAD_INITIALIZER(all);

static void run_exec(struct run *);

int
run_has(uint64_t sandbox)
{
	struct run *run;

	LIST_FOREACH (run, &all, entry)
		if (run->box == sandbox)
			return 1;
	return 0;
}

static void
run_free(struct run *run)
{
	struct m_id m = {.ask = run->ask, .id = run->box};

	if (run->box != 0)
		send_DESTROY(apid.managerd, run->leaving, &m, NULL, 0, -1);
	else
		call_cancel(run->leaving);
	LIST_REMOVE(run, entry);
	free(run);
}

static void
run_over(struct req *r)
{
	struct run *run = r->state;

	r->state = NULL;
	run->r = NULL;
	xfer_close(&run->x);
	evbuffer_free(run->code);
	evbuffer_free(run->egress);
	capture_free(&run->output);
	if (run->making == 0)
		run_free(run);
}

static void
path_of(const struct run *run, char *path, size_t size)
{
	snprintf(path, size, "/workspace/%s", run->want.language->file);
}

/* Whether Python ended because it got no memory: the last line of its traceback is of that
 * exception, or of one derived from it. */
static int
memory_error(const struct run *run)
{
	static const char name[] = "MemoryError";
	const char *p = run->last, *end = p + run->last_len, *line, *colon;

	if (run->end.exit_code != 1 || strcmp(run->want.language->name, "python") != 0)
		return 0;
	while (end > p && (end[-1] == '\n' || end[-1] == '\r'))
		end--;
	if ((line = memrchr(p, '\n', (size_t)(end - p))) == NULL)
		return 0;
	line++;
	if ((colon = memchr(line, ':', (size_t)(end - line))) != NULL)
		end = colon;
	return (size_t)(end - line) >= sizeof(name) - 1 &&
	       memcmp(end - (sizeof(name) - 1), name, sizeof(name) - 1) == 0;
}

static void
run_answer(struct run *run)
{
	struct evbuffer *out = buffer_new();
	char snapshot[ID_TEXT_MAX];
	int starved = run->end.oom_killed || (run->want.asked_memory && memory_error(run));

	evbuffer_add(out, "{", 1);
	capture_write(&run->output, out);
	evbuffer_add_printf(out,
	    ",\"exit_code\":%d,\"duration_ms\":%lld,\"language\":\"%s\",\"backend\":\"docker\","
	    "\"snapshot_id\":%s%s%s,\"limits_applied\":{\"timeout_seconds\":%lld,\"memory_mb\":"
	    "%lld},\"oom_killed\":%s,\"network_isolated\":%s,\"egress_allowlist\":",
	    run->end.exit_code, (long long)(run->end.duration_us / 1000), run->want.language->name,
	    run->snapshot != 0 ? "\"" : "",
	    run->snapshot != 0 ? id_text(snapshot, "snap_", run->snapshot) : "null",
	    run->snapshot != 0 ? "\"" : "", (long long)run->want.timeout_s,
	    (long long)run->want.memory_mb, starved ? "true" : "false",
	    run->network ? "false" : "true");
	evbuffer_add_buffer(out, run->egress);
	evbuffer_add_printf(out, ",\"truncated\":%s}", run->output.omitted > 0 ? "true" : "false");
	req_reply(run->r, 200, out);
}

static void
on_snapshot(void *arg, const struct answer *a)
{
	struct run *run = arg;
	const struct m_snapshot *made = a->payload;

	run->r->call = 0;
	if (a->type == MSG_REPLY) {
		req_pass_on(run->r, a);
		return;
	}
	run->snapshot = made->id;
	run_answer(run);
}

static void
run_snapshot(struct run *run)
{
	struct m_snapshot_make m = {.ask = run->ask, .sandbox = run->box};
	struct req *r = run->r;

	xfer_close(&run->x);
	if ((r->call = call_new(CALL_SNAPSHOT, on_snapshot, run)) == 0)
		req_overloaded(r);
	else
		send_SNAPSHOT_MAKE(apid.managerd, r->call, &m, NULL, 0, -1);
}

static void
on_removed(struct xfer *x, uint8_t type, const uint8_t *p, size_t n)
{
	(void)p;
	(void)n;
	if (type == RECORD_DONE)
		run_snapshot((struct run *)x);
	else
		xfer_nonsense(x);
}

/* The program has changed or removed its own file: that is its business. */
static int
not_removed(struct xfer *x, int status, const char *text, size_t n)
{
	(void)text;
	(void)n;
	if (status != 400 && status != 404 && status != 409)
		return 0;
	run_snapshot((struct run *)x);
	return 1;
}

static void
run_remove(struct run *run)
{
	static const struct xfer_ops ops = {.record = on_removed, .failed = not_removed};
	struct m_file m = {.ask = run->ask, .sandbox = run->box};
	char path[64];
	int fd;

	m.job.first = run->file.mtime_ns;
	m.job.size = run->file.size;
	path_of(run, path, sizeof(path));
	xfer_close(&run->x);
	if (xfer_open(&run->x, run->r, &ops, &fd) == 0)
		send_FILE_REMOVE(apid.managerd, run->x.call, &m, path, strlen(path), fd);
}

static void
remember(struct run *run, const uint8_t *p, size_t n)
{
	size_t keep;

	if (n > LAST_WORDS) {
		p += n - LAST_WORDS;
		n = LAST_WORDS;
	}
	keep = run->last_len + n > LAST_WORDS ? LAST_WORDS - n : run->last_len;
	memmove(run->last, run->last + run->last_len - keep, keep);
	memcpy(run->last + keep, p, n);
	run->last_len = keep + n;
}

static void
on_exit_record(struct run *run, const struct r_exit *end)
{
	run->end = *end;
	if (end->timed_out)
		req_error(run->r, 408, "Execution timed out");
	else if (run->want.snapshot)
		run_remove(run);
	else
		run_answer(run);
}

static void
on_output(struct xfer *x, uint8_t type, const uint8_t *p, size_t n)
{
	struct run *run = (struct run *)x;
	struct r_exit end;

	switch (type) {
	case RECORD_STARTED:
		break;
	case RECORD_STDERR:
		remember(run, p, n);
		/* FALLTHROUGH */
	case RECORD_STDOUT:
		capture_add(&run->output, run->r, type == RECORD_STDERR, p, n);
		break;
	case RECORD_EXIT:
		if (n == sizeof(end)) {
			memcpy(&end, p, sizeof(end));
			on_exit_record(run, &end);
			break;
		}
		/* FALLTHROUGH */
	default:
		xfer_nonsense(x);
	}
}

/* Perhaps the image has the other one. */
static int
not_started(struct xfer *x, int status, const char *text, size_t n)
{
	static const char missing[] = "no such program";
	struct run *run = (struct run *)x;
	const struct language *language = run->want.language;

	if (status != 400)
		return 0;
	if (language->programs[run->program + 1] != NULL) {
		run->program++;
		run_exec(run);
		return 1;
	}
	if (n < sizeof(missing) - 1 || memcmp(text, missing, sizeof(missing) - 1) != 0)
		return 0;
	req_error(run->r, 400, "image %s has %s", run->image, language->missing);
	return 1;
}

static void
run_exec(struct run *run)
{
	static const struct xfer_ops ops = {.record = on_output, .failed = not_started};
	const struct language *language = run->want.language;
	const char *argv[] = {language->programs[run->program], language->file, NULL};
	struct exec_request e;
	int fd;

	xfer_close(&run->x);
	if (xfer_open(&run->x, run->r, &ops, &fd) == -1)
		return;
	exec_request_argv(argv, run->want.timeout_us, &e);
	e.job.must_exist = 1;
	exec_start(&run->x, &e, fd);
}

static void
on_written(struct xfer *x, uint8_t type, const uint8_t *p, size_t n)
{
	struct run *run = (struct run *)x;

	if (type == RECORD_META && n == sizeof(run->file))
		memcpy(&run->file, p, n);
	else if (type == RECORD_DONE)
		run_exec(run);
	else
		xfer_nonsense(x);
}

/* All at once: there is nothing to wait for between the bytes and the request. */
static void
run_write(struct run *run)
{
	static const struct xfer_ops ops = {.record = on_written};
	struct m_file m = {.ask = run->ask, .sandbox = run->box};
	struct r_done done = {(int64_t)evbuffer_get_length(run->code)};
	char path[64];
	size_t n;
	int fd;

	m.job.max = -1;
	m.job.size = done.bytes;
	m.job.mode = 0644;
	path_of(run, path, sizeof(path));
	if (xfer_open(&run->x, run->r, &ops, &fd) == -1)
		return;
	while ((n = evbuffer_get_length(run->code)) > 0)
		data_move(run->x.data, RECORD_DATA, run->code, n < RECORD_MAX ? n : RECORD_MAX);
	data_send(run->x.data, RECORD_DONE, &done, sizeof(done));
	send_FILE_WRITE(apid.managerd, run->x.call, &m, path, strlen(path), fd);
}

static void
not_made(struct run *run, const struct answer *a)
{
	const struct m_reply *reply = a->payload;
	char id[ID_TEXT_MAX];

	if (reply->status == 404)
		req_error(
		    run->r, 400, "Unknown snapshot: %s", id_text(id, "snap_", run->want.from));
	else
		req_pass_on(run->r, a);
}

static void
on_made(void *arg, const struct answer *a)
{
	const struct m_sandbox *made = a->payload;
	struct run *run = arg;

	run->making = 0;
	if (a->type == MSG_SANDBOX) {
		run->box = made->id;
		run->network = made->network;
		strlcpy(run->image, a->tail, sizeof(run->image));
	}
	if (run->r == NULL)
		run_free(run);
	else if (a->type == MSG_REPLY)
		not_made(run, a);
	else {
		object_egress(run->egress, made, a->tail, a->tail_len);
		run->r->authed = 1;
		run->r->id = run->box;
		run_write(run);
	}
}

static void
run_make(struct run *run)
{
	const struct run_request *want = &run->want;
	int64_t life = want->timeout_s + LIFE_SECONDS,
		most = apid.config->num[CFG_MAX_TIMEOUT_SECONDS];
	struct m_create m = {.ask = run->ask, .read_only = NOT_GIVEN, .run = 1};
	const char *image =
	    want->language->image < 0 ? "" : apid.config->str[want->language->image];
	int fd;

	m.memory_mb = want->memory_mb;
	m.keep = want->snapshot;
	m.ttl_s = life < most ? life : most;
	m.snapshot = want->from;
	m.egress = want->egress != NULL;
	if ((fd = object_create_data(NULL, NULL, want->egress)) == -1) {
		req_overloaded(run->r);
		return;
	}
	if ((run->leaving = call_new(CALL_REPLY, NULL, NULL)) == 0 ||
	    (run->making = call_new(CALL_SANDBOX, on_made, run)) == 0) {
		close(fd);
		req_overloaded(run->r);
		return;
	}
	send_CREATE(apid.managerd, run->making, &m, image, strlen(image), fd);
}

void
run_post(struct req *r)
{
	struct run_request want;
	struct run *run;

	if (run_request_parse(r->json, apid.config, &want, &r->refusal) == -1) {
		req_refuse(r, &r->refusal);
		return;
	}
	if ((run = calloc(1, sizeof(*run))) == NULL)
		fatal("calloc");
	LIST_INSERT_HEAD(&all, run, entry);
	run->r = r;
	run->want = want;
	run->code = buffer_new();
	run->egress = buffer_new();
	evbuffer_add(run->code, json_string_value(want.code), json_string_length(want.code));
	run->want.code = NULL; /* goes with the body, as egress does */
	capture_init(&run->output, want.output_bytes, 0);
	req_ask(r, &run->ask);
	r->state = run;
	r->cleanup = run_over;
	r->leave_ends = 1;
	run_make(run);
}
