/* Commands: arguments and standard input from the client, output and the exit from the guest. */
#include <string.h>

#include "common/log.h"
#include "sessiond/args.h"
#include "sessiond/job.h"
#include "sessiond/sha256.h"

/* What came is from the HTTP side, whoever that may be by now: what is wrong fails this job only.
 */
static void
exec_take_args(struct job *j, const struct data_record *r)
{
	struct session *s = j->s;
	uint8_t sum[SHA256_BYTES];
	const char *why;

	sha256_once(r->p, r->len, sum);
	if (r->type != RECORD_ARGS || r->len != j->exec.args_len ||
	    memcmp(sum, j->exec.args_sha256, sizeof(sum)) != 0) {
		job_fail(j, 500, "the command is not what was announced");
		return;
	}
	why = args_build(r->p, r->len, s->env, s->env_len, s->egress, &j->args);
	data_take(&j->data, r->len);
	if (buf_len(&j->data.in) == 0)
		buf_free(&j->data.in);
	if (why != NULL) {
		job_fail(j, 500, "%s", why);
		return;
	}
	j->sent_end = !j->exec.stdin_follows;
	job_ready(j);
}

void
exec_read_args(struct job *j)
{
	struct data_record r;

	switch (data_next(&j->data, j->exec.args_len, &r)) {
	case DATA_RECORD:
		exec_take_args(j, &r);
		break;
	case DATA_AGAIN:
		break;
	case DATA_EOF:
		data_close(&j->data);
		job_decide(j, STATUS_CLIENT_GONE, NULL);
		job_over(j);
		break;
	case DATA_BAD:
		job_fail(j, 500, "the command is not what was announced");
		break;
	}
}

void
exec_open(struct job *j)
{
	struct g_exec g = {.timeout_us = j->exec.timeout_us};
	uint32_t len;

	g.args_len = (uint32_t)buf_len(&j->args);
	g.stdin_open = j->exec.stdin_follows;
	g.kill_others = j->exec.kill_others;
	g.must_exist = j->exec.must_exist;
	while (buf_len(&j->args) > 0) {
		len = buf_len(&j->args) < FRAME_DATA_MAX ? (uint32_t)buf_len(&j->args)
							 : FRAME_DATA_MAX;
		guest_send(j->s, G_EXEC_ARGS, j->channel, buf_data(&j->args), len);
		buf_drop(&j->args, len);
	}
	buf_free(&j->args);
	guest_send(j->s, G_EXEC, j->channel, &g, sizeof(g));
}

static void
exec_stdin_end(struct job *j)
{
	j->sent_end = 1;
	guest_send(j->s, G_STDIN_END, j->channel, NULL, 0);
	if (j->data.deaf)
		data_close(&j->data);
}

/* One record, or as much of it as there is credit for. -1: nothing more can be taken; the job may
 * be gone. */
static int
exec_pump_record(struct job *j)
{
	struct data_record r;

	switch (data_next(&j->data, RECORD_MAX, &r)) {
	case DATA_AGAIN:
		return -1;
	case DATA_EOF:
		if (j->exec.keep) {
			data_deafen(&j->data);
			exec_stdin_end(j);
		} else {
			data_close(&j->data);
			job_close(j);
		}
		return -1;
	case DATA_BAD:
		job_fail(j, 500, "malformed standard input");
		return -1;
	case DATA_RECORD:
		break;
	}
	if (r.type == RECORD_STDIN) {
		job_forward(j, G_STDIN, &r);
		return 0;
	}
	data_take(&j->data, r.len);
	if (r.type == RECORD_STDIN_END && r.len == 0)
		exec_stdin_end(j);
	else
		job_fail(j, 500, "malformed standard input");
	return -1;
}

void
exec_pump(struct job *j)
{
	while (j->our_credit > 0 && !guest_full(j->s)) {
		if (exec_pump_record(j) == -1)
			return;
	}
}

const char *
exec_started(struct job *j, const struct frame *f)
{
	(void)f;
	job_put(j, RECORD_STARTED, NULL, 0, NULL, 0, 0);
	return NULL;
}

const char *
exec_output(struct job *j, const struct frame *f)
{
	j->bytes_out += f->len;
	job_put(
	    j, f->type == G_STDOUT ? RECORD_STDOUT : RECORD_STDERR, NULL, 0, f->data, f->len, 1);
	return NULL;
}

static int
exec_exit_valid(const struct g_exit *g)
{
	return g->exit_code >= 0 && g->exit_code <= 255 && g->timed_out <= 1 &&
	       g->oom_killed <= 1 && g->signal <= 64 && g->duration_us >= 0 && g->cpu_us >= 0 &&
	       g->peak_memory_bytes >= -1;
}

const char *
exec_exit(struct job *j, const struct frame *f)
{
	struct r_exit r = {0};
	struct g_exit g;

	memcpy(&g, f->data, sizeof(g));
	if (!exec_exit_valid(&g))
		return "EXIT with impossible values";
	if (!j->started && !j->closing)
		return "EXIT before STARTED";
	r.exit_code = g.exit_code;
	r.timed_out = g.timed_out;
	r.oom_killed = g.oom_killed;
	r.signal = g.signal;
	r.duration_us = g.duration_us;
	r.cpu_us = g.cpu_us;
	r.peak_memory_bytes = g.peak_memory_bytes;
	job_release_channel(j);
	j->exit_code = g.exit_code;
	job_put(j, RECORD_EXIT, &r, sizeof(r), NULL, 0, 0);
	job_decide(j, 200, NULL);
	job_over(j);
	return NULL;
}
