/* The life of a job: its two sides, its deadlines, and the one word to managerd at its end. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/ids.h"
#include "common/log.h"
#include "common/record.h"
#include "sessiond/channel.h"
#include "sessiond/job.h"

#define SECOND 1000000LL
#define JOB_ARGS_TIME (10 * SECOND)
#define JOB_KILL_TIME (10 * SECOND)     /* between asking the guest to stop and giving it up */
#define JOB_BACKUP_TIME (10 * SECOND)   /* beyond a command's own limit, which the guest keeps */
#define JOB_SILENCE_TIME (120 * SECOND) /* a transfer in which the guest owes us something */
#define JOB_STALL_TIME (60 * SECOND)    /* a peer that does not read its last bytes */
#define JOB_LINGER_TIME (5 * SECOND)    /* a peer that has them all and does not close */
#define SNAPSHOT_RATE_MIN 65536         /* bytes a second */
#define JOB_GIVE_MIN (GUEST_WINDOW / 4)

static void job_gone(struct job *);
static void job_linger(struct job *);

static void
job_arm(struct job *j, int64_t us)
{
	struct timeval tv = {us / SECOND, us % SECOND};

	if (event_add(&j->timer, &tv) == -1)
		fatalx("job: event");
}

/* A transfer whose next step is the guest's, and not ours or the peer's. */
static int
job_guest_owes(const struct job *j)
{
	if (j->kind & JOB_TAKES)
		return !j->started || j->sent_end || j->our_credit == 0;
	return j->data.pending == 0 && j->owed < JOB_GIVE_MIN;
}

/* A snapshot stops the sandbox's clock, so that its own time is real time. */
static int64_t
job_clock(const struct job *j)
{
	return j->kind == JOB_SNAPSHOT ? time_boot_us() : session_clock_us(j->s);
}

/* When a transfer that makes no progress is given up. A snapshot must also keep up a rate: it holds
 * everything still. */
static int64_t
job_patience(const struct job *j)
{
	int64_t until = (job_guest_owes(j) ? j->heard_us : job_clock(j)) + JOB_SILENCE_TIME;
	int64_t slowest =
	    j->began_us + JOB_SILENCE_TIME + j->bytes_out / SNAPSHOT_RATE_MIN * SECOND;

	return j->kind == JOB_SNAPSHOT && slowest < until ? slowest : until;
}

static void
job_overdue(struct job *j)
{
	int64_t clock = job_clock(j);

	if (j->kind != JOB_EXEC && !j->closing)
		j->deadline_us = job_patience(j);
	if (clock < j->deadline_us)
		job_arm(j, j->deadline_us - clock);
	else if (j->closing)
		session_down(j->s, "no answer to a request to stop");
	else if (j->kind == JOB_EXEC)
		job_close(j);
	else
		job_fail(j, 502, "%s did not answer in time", j->s->name);
}

void
job_heard(struct job *j)
{
	j->heard_us = job_clock(j);
}

static void
job_timer(evutil_socket_t fd, short what, void *arg)
{
	struct job *j = arg;
	struct session *s = j->s;

	(void)fd;
	(void)what;
	switch (j->phase) {
	case JOB_ARGS:
		job_fail(j, 500, "the command did not arrive in time");
		break;
	case JOB_OPEN:
		job_overdue(j);
		break;
	case JOB_LAST:
		job_free(j);
		break;
	default:
		break;
	}
	session_batch_end(s);
}

/* What lies in the socket is read first where it counts: the arguments, and an upload up to its
 * end. */
static void
job_readable(evutil_socket_t fd, short what, void *arg)
{
	struct job *j = arg;
	struct session *s = j->s;
	int hangup = data_hangup(&j->data);

	(void)fd;
	(void)what;
	if (j->phase == JOB_ARGS) {
		if (hangup) /* is told once, and counts again when the arguments are there */
			event_active(&j->data.ev_read, EV_READ, 1);
		exec_read_args(j);
	} else if (j->phase == JOB_LAST)
		job_linger(j);
	else if (hangup && !j->data.deaf && !(j->kind & (JOB_WRITE | JOB_ARCHIVE_PUT)))
		job_gone(j);
	else
		job_pump(j);
	session_batch_end(s);
}

static void
job_writable(evutil_socket_t fd, short what, void *arg)
{
	struct job *j = arg;
	struct session *s = j->s;

	(void)fd;
	(void)what;
	job_flush(j);
	session_batch_end(s);
}

void
job_decide(struct job *j, uint32_t status, const char *text)
{
	if (j->status != 0)
		return;
	j->status = status;
	if (text != NULL && (j->text = strdup(text)) == NULL)
		fatal("job");
}

static void
job_tell(struct job *j, uint32_t status, const char *text)
{
	struct r_error e = {.status = status, .retry_after = status == 429 || status == 503};

	if (j->status != 0)
		return;
	job_put(j, RECORD_ERROR, &e, sizeof(e), text, strlen(text), 0);
	job_decide(j, status, text);
}

struct job *
job_new(struct session *s, uint64_t id, enum job_kind kind, int fd)
{
	struct job *j;

	if (!(kind & JOB_FILES) && !data_is_stream(fd)) {
		log_warnx("job without a data socket");
		close(fd);
		send_S_JOB_END(s->manager, id, &(struct m_job_end){.status = 500}, NULL, 0, -1);
		return NULL;
	}
	if ((j = calloc(1, sizeof(*j))) == NULL)
		fatal("job");
	j->s = s;
	j->id = id;
	j->kind = kind;
	j->phase = JOB_WAITING;
	j->exit_code = -1;
	j->began_us = time_boot_us();
	data_open(&j->data, s->base, fd, job_readable, job_writable, j);
	if (evtimer_assign(&j->timer, s->base, job_timer, j) == -1)
		fatalx("job: event");
	TAILQ_INSERT_TAIL(&s->jobs, j, entry);
	if (++s->njobs > SESSION_JOBS_MAX) {
		job_tell(j, 429, "too many requests for one sandbox at once");
		data_flush(&j->data);
		if (s->njobs > SESSION_JOBS_MAX + SESSION_REFUSED_MAX)
			data_deafen(
			    &j->data); /* no time to linger: the record is in the peer's socket */
		job_over(j);
		return NULL;
	}
	if (kind == JOB_EXEC) {
		j->phase = JOB_ARGS;
		job_arm(j, JOB_ARGS_TIME);
	}
	return j;
}

void
job_free(struct job *j)
{
	struct session *s = j->s;

	job_release_channel(j);
	if (j->dirty)
		TAILQ_REMOVE(&s->dirty, j, dirty_entry);
	TAILQ_REMOVE(&s->jobs, j, entry);
	s->njobs--;
	event_del(&j->timer);
	data_close(&j->data);
	buf_free(&j->args);
	pack_free(j->pack);
	free(j->path);
	free(j->text);
	free(j);
}

void
job_ready(struct job *j)
{
	j->phase = JOB_WAITING;
	event_del(&j->timer);
	if (j->s->state == SESSION_DOWN)
		job_fail(j, 502, "the engine lost %s", j->s->name);
	else
		job_begin(j);
}

void
job_begin(struct job *j)
{
	if (j->s->state != SESSION_UP || guest_full(j->s))
		return;
	if (channel_open(j) == -1) {
		job_fail(j, 429, "%s is running %d commands and transfers; try again", j->s->name,
		    j->kind == JOB_EXEC ? EXECS_MAX : GUEST_CHANNELS);
		return;
	}
	j->phase = JOB_OPEN;
	job_heard(j);
	if (j->kind == JOB_EXEC) {
		j->deadline_us = j->heard_us + j->exec.timeout_us + JOB_BACKUP_TIME;
		exec_open(j);
	} else {
		j->deadline_us = j->heard_us + JOB_SILENCE_TIME;
		if (j->kind & JOB_FILES)
			pack_open(j);
		else
			file_open(j);
	}
	job_arm(j, j->deadline_us - j->heard_us);
	job_pump(j);
}

void
job_fail(struct job *j, uint32_t status, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	job_tell(j, status, text);
	if (j->channel != 0)
		job_close(j);
	else
		job_over(j);
}

void
job_lost(struct job *j, uint32_t status, const char *text)
{
	if (j->phase == JOB_LAST)
		return;
	job_tell(j, status, text);
	job_over(j);
}

void
job_close(struct job *j)
{
	if (j->closing)
		return;
	j->closing = 1;
	guest_send(j->s, j->kind == JOB_EXEC && j->started ? G_KILL : G_CLOSE, j->channel, NULL, 0);
	j->deadline_us = job_clock(j) + JOB_KILL_TIME;
	job_arm(j, JOB_KILL_TIME);
}

/* A command that is to be kept, and an upload that is here whole, go on without their peer. */
static int
job_outlives_peer(const struct job *j)
{
	if (j->kind == JOB_EXEC)
		return j->exec.keep;
	return (j->kind & JOB_TAKES) && j->sent_end;
}

/* The peer closed its end. */
static void
job_gone(struct job *j)
{
	if (j->phase == JOB_LAST) {
		job_free(j);
		return;
	}
	if (j->kind == JOB_EXEC && j->exec.keep && !j->sent_end)
		data_deafen(&j->data); /* what it sent of standard input still counts */
	else
		data_close(&j->data);
	if (!job_outlives_peer(j)) {
		if (j->kind != JOB_EXEC || j->phase != JOB_OPEN)
			job_decide(j, STATUS_CLIENT_GONE, NULL);
		if (j->phase != JOB_OPEN) {
			job_over(j);
			return;
		}
		job_close(j);
	}
	job_give(j);
	job_pump(j);
}

/* All is said: what still comes is thrown away, and the end of it is awaited. The job may be gone.
 */
static void
job_linger(struct job *j)
{
	if (data_discard(&j->data))
		job_free(j);
}

void
job_release_channel(struct job *j)
{
	struct session *s = j->s;

	if (j->channel == 0)
		return;
	s->channels[j->channel] = NULL;
	j->channel = 0;
	s->nexecs -= j->kind == JOB_EXEC;
	if (j->kind == JOB_SNAPSHOT)
		session_freeze(s, 0);
}

void
job_over(struct job *j)
{
	struct m_job_end end = {.status = j->status, .exit_code = j->exit_code};
	int done;

	job_release_channel(j);
	j->phase = JOB_LAST;
	done = j->data.fd == -1 || j->data.deaf || data_finish(&j->data) == -1;
	end.duration_us = time_boot_us() - j->began_us;
	end.bytes_in = j->bytes_in;
	end.bytes_out = j->bytes_out;
	send_S_JOB_END(
	    j->s->manager, j->id, &end, j->text, j->text == NULL ? 0 : strlen(j->text), -1);
	if (done) {
		job_free(j);
		return;
	}
	job_arm(j, buf_len(&j->data.out) > 0 ? JOB_STALL_TIME : JOB_LINGER_TIME);
	job_linger(j);
}

void
job_put(struct job *j, uint8_t type, const void *fixed, size_t fixed_len, const void *p, size_t n,
    int credited)
{
	if (j->status != 0) {
		/* The last record is said. */
		if (credited)
			j->owed += (uint32_t)n;
		job_give(j);
		return;
	}
	data_put(&j->data, type, fixed, fixed_len, p, n, credited);
	if (!j->dirty && buf_len(&j->data.out) > 0) {
		j->dirty = 1;
		TAILQ_INSERT_TAIL(&j->s->dirty, j, dirty_entry);
	}
	job_give(j);
}

void
job_give(struct job *j)
{
	struct g_number w = {0};

	j->owed += j->data.released;
	j->data.released = 0;
	if (j->channel == 0 || j->owed < JOB_GIVE_MIN || guest_full(j->s))
		return;
	w.n = j->owed;
	j->owed = 0;
	j->guest_credit += w.n;
	guest_send(j->s, G_WINDOW, j->channel, &w, sizeof(w));
}

void
job_flush(struct job *j)
{
	size_t before = buf_len(&j->data.out);

	if (j->dirty) {
		j->dirty = 0;
		TAILQ_REMOVE(&j->s->dirty, j, dirty_entry);
	}
	if (data_flush(&j->data) == -1) {
		job_gone(j);
		return;
	}
	if (j->phase == JOB_LAST && buf_len(&j->data.out) < before)
		job_arm(j, buf_len(&j->data.out) > 0 ? JOB_STALL_TIME : JOB_LINGER_TIME);
	job_give(j);
}

void
job_forward(struct job *j, uint8_t type, const struct data_record *r)
{
	uint32_t n = r->len < j->our_credit ? (uint32_t)r->len : j->our_credit;

	if (n > 0)
		guest_send_data(j->s, type, j->channel, r->p, n);
	j->our_credit -= n;
	j->bytes_in += n;
	data_take(&j->data, n);
}

void
job_pump(struct job *j)
{
	if (j->phase != JOB_OPEN || j->closing || j->sent_end || !(j->kind & JOB_TAKES))
		return;
	if (j->kind == JOB_EXEC)
		exec_pump(j);
	else if (j->kind == JOB_RESTORE)
		pack_pump(j);
	else
		file_pump(j);
}
