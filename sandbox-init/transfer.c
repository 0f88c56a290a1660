/*
 * One worker process per archive. Its pipe is the channel's data; its control socket says how it
 * ended, and tells an IMPORT that all data came (else it removes what it had unpacked).
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-init/channel.h"
#include "sandbox-init/freeze.h"
#include "sandbox-init/mem.h"
#include "sandbox-init/pipes.h"
#include "sandbox-init/request.h"
#include "sandbox-init/resolve.h"
#include "sandbox-init/transfer.h"
#include "sandbox-init/worker.h"

#define STALL_US 30000000 /* frozen that long without credit: its client is not coming for it */
#define CLEAN_US 3000000  /* a worker that cleans up for longer is killed */
#define SWEEP_US 100000   /* before what a killed one left is removed, and between two attempts */

struct transfer {
	struct channel *ch; /* NULL: called off, the worker cleans up */
	struct worker_job job;
	struct watch control;
	struct source out;
	struct feed in;
	struct timer stall;
	int folder;
	int64_t max;
	int frozen;
	int reported;
	int stopping; /* ended from here: the report below is ours, the worker is still cleaning up
		       */
	struct worker_report report;
	pid_t worker;
};

static int cleaning; /* workers whose attachment has gone, but for sweepers */

static void
transfer_free(struct transfer *t)
{
	timer_clear(&t->stall);
	source_close(&t->out);
	feed_close(&t->in);
	if (t->control.fd >= 0) {
		loop_unwatch(&t->control);
		close(t->control.fd);
	}
	if (t->folder >= 0)
		close(t->folder);
	temp_forget(t->job.staging);
	free(t);
}

/* The channel's end, and with it the end of the freeze. */
static void
finish(struct transfer *t)
{
	struct channel *ch = t->ch;
	int64_t bytes = t->job.export ? t->out.bytes : ch->in_bytes;
	int frozen = t->frozen;

	ch->ops = NULL;
	if (frozen && t->report.status == 200 && !freeze_held()) {
		t->report.status = 409;
		strcpy(t->report.text, "the processes of the sandbox did not stand still");
	}
	channel_end(ch, t->report.status, bytes, "%s", t->report.text);
	transfer_free(t);
	if (frozen)
		freeze_end();
}

static void
on_clean_timeout(void *arg)
{
	struct transfer *t = arg;

	kill(t->worker, SIGKILL);
}

/*
 * The worker hears of the end by its pipe and its socket. It may have something to put back or to
 * remove: only then is it over.
 */
static void
stop_worker(struct transfer *t)
{
	source_close(&t->out);
	feed_close(&t->in);
	shutdown(t->control.fd, SHUT_WR);
	timer_set(&t->stall, loop_now() + CLEAN_US, on_clean_timeout, t);
}

static void
stop(struct transfer *t, uint32_t status, const char *text)
{
	if (t->stopping)
		return;
	t->stopping = 1;
	t->report.status = status;
	strncpy(t->report.text, text, sizeof(t->report.text) - 1);
	if (t->reported || t->control.fd < 0)
		finish(t);
	else
		stop_worker(t);
}

static void
try_finish(void *arg)
{
	struct transfer *t = arg;

	if (!t->reported)
		return;
	if (t->job.sweeps) {
		transfer_free(t);
	} else if (t->ch == NULL) {
		transfer_free(t);
		if (--cleaning == 0)
			channel_release();
	} else if (t->report.status != 200 || t->out.fd < 0) {
		finish(t);
	}
}

static void on_control(void *, short);

/* The stall timer of a sweeper, until a process for it can be had. */
static void
sweeper_start(void *arg)
{
	struct transfer *t = arg;
	int control[2] = {-1, -1};

	t->worker = -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) == 0)
		t->worker = worker_fork(&t->job, control[1], control[1], t->folder);
	close(control[1]);
	if (t->worker < 0) {
		close(control[0]);
		timer_set(&t->stall, loop_now() + SWEEP_US, sweeper_start, t);
		return;
	}
	loop_watch(&t->control, control[0], on_control, t);
	t->control.events = POLLIN;
}

/*
 * A command of the sandbox has killed an IMPORT: what it had unpacked aside goes in the background.
 * Nothing waits for that, since the command may keep it from ever being done, and no snapshot has a
 * folder of such a name.
 */
static void
sweep_after(struct transfer *t)
{
	struct transfer *s;

	if (t->job.staging[0] == '\0')
		return;
	s = mem_new(sizeof(*s));
	s->control.fd = s->out.fd = s->in.fd = -1;
	s->job.sweeps = 1;
	memcpy(s->job.staging, t->job.staging, sizeof(s->job.staging));
	t->job.staging[0] = '\0';
	s->folder = t->folder;
	t->folder = -1;
	timer_set(&s->stall, loop_now() + SWEEP_US, sweeper_start, s);
}

int
transfer_cleaning(void)
{
	return cleaning > 0;
}

static void
on_control(void *arg, short revents)
{
	struct transfer *t = arg;
	struct worker_report r;
	ssize_t n = recv(t->control.fd, &r, sizeof(r), MSG_DONTWAIT);

	(void)revents;
	/* Said first when it left without reading our word to go on; its report comes after it. */
	if (n < 0 && errno == ECONNRESET)
		n = recv(t->control.fd, &r, sizeof(r), MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n != (ssize_t)sizeof(r)) {
		r.status = 409;
		strcpy(r.text, "the process that did it was killed, by a command of the sandbox or "
			       "for lack of memory");
		sweep_after(t);
	}
	r.text[sizeof(r.text) - 1] = '\0';
	if (!t->stopping)
		t->report = r;
	t->reported = 1;
	loop_unwatch(&t->control);
	try_finish(t);
}

static void
on_stall(void *arg)
{
	stop(arg, 409, "the snapshot was not fetched in time");
}

static void
arm_stall(struct transfer *t)
{
	if (t->stopping)
		return;
	if (t->frozen && channel_allows(t->ch) == 0) {
		if (t->stall.at == 0)
			timer_set(&t->stall, loop_now() + STALL_US, on_stall, t);
	} else {
		timer_clear(&t->stall);
	}
}

static void
on_credit(struct channel *ch)
{
	struct transfer *t = ch->state;

	source_credit(&t->out);
	arm_stall(t);
}

/* Runs on every turn: the cheapest place to see what the source has read meanwhile. */
static int
on_pump(struct channel *ch)
{
	struct transfer *t = ch->state;

	if (t->job.export && t->max >= 0 && t->out.bytes > t->max)
		stop(t, 413, "larger than allowed");
	else
		arm_stall(t);
	return 0;
}

static void
on_data(struct channel *ch, const uint8_t *data, size_t len)
{
	struct transfer *t = ch->state;

	if (t->stopping)
		return;
	if (t->max >= 0 && ch->in_bytes > t->max)
		stop(t, 413, "larger than allowed");
	else
		feed_push(&t->in, data, len);
}

static void
on_data_end(struct channel *ch, int64_t bytes)
{
	struct transfer *t = ch->state;

	if (t->stopping)
		return;
	if (bytes != ch->in_bytes) {
		stop(t, 400, "the data ended early");
		return;
	}
	(void)!send(t->control.fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	feed_end(&t->in);
}

static void
on_close(struct channel *ch)
{
	stop(ch->state, 409, "called off");
}

static void
on_drop(struct channel *ch)
{
	struct transfer *t = ch->state;

	ch->ops = NULL;
	t->ch = NULL;
	if (t->control.fd < 0 || t->reported) {
		transfer_free(t);
		return;
	}
	cleaning++;
	stop_worker(t);
}

static const struct channel_ops export_ops = {
    .credit = on_credit, .pump = on_pump, .kill = on_close, .close = on_close, .drop = on_drop};
static const struct channel_ops import_ops = {
    .data = on_data, .data_end = on_data_end, .kill = on_close, .close = on_close, .drop = on_drop};

static void
start_worker(struct transfer *t)
{
	int data[2] = {-1, -1}, control[2] = {-1, -1}, error;

	t->worker = -1;
	if (pipe2(data, O_CLOEXEC) == 0 &&
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) == 0)
		t->worker = worker_fork(&t->job, data[t->job.export], control[1], t->folder);
	error = errno;
	if (t->job.staging[0] == '\0') { /* else it may be needed to remove that */
		close(t->folder);
		t->folder = -1;
	}
	close(control[1]);
	close(data[t->job.export]);
	if (t->worker < 0) {
		close(control[0]);
		close(data[!t->job.export]);
		stop(t, 429,
		    error == EAGAIN ? "sandbox reached its pids_limit" : request_reason(error));
		return;
	}
	fcntl(data[!t->job.export], F_SETFL, O_NONBLOCK);
	loop_watch(&t->control, control[0], on_control, t);
	t->control.events = POLLIN;
	if (t->job.export)
		source_open(&t->out, t->ch, data[0], G_DATA, try_finish, t);
	else
		feed_open(&t->in, t->ch, data[1]);
	channel_started(t->ch);
}

static void
on_frozen(void *arg, int frozen)
{
	struct transfer *t = arg;

	if (t->ch == NULL)
		return;
	if (frozen) {
		start_worker(t);
		return;
	}
	t->frozen = 0;
	stop(t, 409, "the processes of the sandbox do not stand still");
}

/* How many folders below /workspace an absolute path lies; -1 when it does not. */
static int
depth_of(const char *path)
{
	int depth = 0;

	if (strncmp(path, "/workspace", 10) != 0 || (path[10] != '/' && path[10] != '\0'))
		return -1;
	for (path += 10; *(path += strspn(path, "/")) != '\0'; path += strcspn(path, "/"))
		depth++;
	return depth;
}

/* 0, or the errno of why this folder (for EXPORT: or file) cannot be used. */
static int
open_folder(struct transfer *t, const struct request *req)
{
	struct stat st;
	const char *slash;

	t->folder =
	    resolve(req->path, request_resolve_flags(req) & ~(t->job.export ? RESOLVE_PARENTS : 0));
	if (t->folder < 0 || fstat(t->folder, &st) < 0)
		return t->job.export && errno == ENOTDIR ? ENOENT : errno;
	if (S_ISDIR(st.st_mode))
		return 0;
	slash = strrchr(req->path, '/');
	if (!t->job.export || !S_ISREG(st.st_mode) || slash[1] == '\0')
		return t->job.export ? ENXIO : ENOTDIR;
	strncpy(t->job.name, slash + 1, sizeof(t->job.name) - 1);
	return 0;
}

void
transfer_open(struct channel *ch, uint8_t type, const uint8_t *data, size_t len)
{
	struct transfer *t;
	struct request req;
	int error;

	if (request_parse(data, len, &req) < 0) {
		channel_end(ch, 400, 0, "not a valid path");
		return;
	}
	t = mem_new(sizeof(*t));
	t->ch = ch;
	t->control.fd = t->out.fd = t->in.fd = -1;
	t->max = req.f.max;
	t->job.export = type == G_EXPORT;
	t->job.exact = (req.f.flags & (t->job.export ? G_FLAG_FREEZE : G_FLAG_RESTORE)) != 0;
	t->job.depth = depth_of(req.path);
	error = open_folder(t, &req);
	if (error != 0) {
		transfer_free(t);
		request_fail(ch, req.path, error);
		return;
	}
	ch->state = t;
	ch->ops = t->job.export ? &export_ops : &import_ops;
	if (!t->job.export && !t->job.exact)
		temp_name(t->job.staging);
	if (t->job.export && t->job.exact) {
		t->frozen = 1;
		freeze_begin(on_frozen, t);
	} else {
		start_worker(t);
	}
}
