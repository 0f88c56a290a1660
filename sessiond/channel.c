/*
 * What the guest may say on which channel and when: a table, and the gate in front of the handlers.
 * Everything here takes the guest for hostile; a breach ends the session.
 */
#include <string.h>

#include "common/log.h"
#include "sessiond/channel.h"
#include "sessiond/dial.h"
#include "sessiond/job.h"
#include "sessiond/text.h"

enum channel_need {
	NEED_NOTHING,
	NEED_NEW,     /* before STARTED */
	NEED_STARTED, /* after it */
};

struct channel_rule {
	uint8_t type;
	uint16_t jobs; /* enum job_kind bits that may get it */
	uint8_t need;
	uint8_t credited; /* its bytes use the guest's credit */
	uint32_t min;
	uint32_t max;
	const char *(*act)(struct job *, const struct frame *);
};

static const char *channel_started(struct job *, const struct frame *);
static const char *channel_data(struct job *, const struct frame *);
static const char *channel_window(struct job *, const struct frame *);
static const char *channel_end(struct job *, const struct frame *);

#define JOB_STARTS \
	(JOB_EXEC | JOB_WRITE | JOB_ARCHIVE_GET | JOB_ARCHIVE_PUT | JOB_SNAPSHOT | JOB_RESTORE)
#define JOB_ALL 511

static const struct channel_rule channel_rules[] = {
    {G_STARTED, JOB_STARTS, NEED_NEW, 0, 0, 0, channel_started},
    {G_STDOUT, JOB_EXEC, NEED_STARTED, 1, 1, FRAME_DATA_MAX, exec_output},
    {G_STDERR, JOB_EXEC, NEED_STARTED, 1, 1, FRAME_DATA_MAX, exec_output},
    {G_EXIT, JOB_EXEC, NEED_NOTHING, 0, sizeof(struct g_exit), sizeof(struct g_exit), exec_exit},
    {G_META, JOB_READ | JOB_WRITE, NEED_NOTHING, 0, sizeof(struct g_meta), sizeof(struct g_meta),
	file_meta},
    {G_DATA, JOB_READ | JOB_ARCHIVE_GET | JOB_SNAPSHOT, NEED_NOTHING, 1, 1, FRAME_DATA_MAX,
	channel_data},
    {G_ENTRY, JOB_LIST, NEED_NOTHING, 1, 1, FRAME_DATA_MAX, file_entry},
    {G_WINDOW, JOB_TAKES, NEED_NOTHING, 0, sizeof(struct g_number), sizeof(struct g_number),
	channel_window},
    {G_END, JOB_ALL, NEED_NOTHING, 0, sizeof(struct g_end), sizeof(struct g_end) + GUEST_TEXT_MAX,
	channel_end},
};

/* Cost of frames that neither use credit nor are bounded by what was asked for; a second has
 * GUEST_BUDGET. */
#define COST_STAT 500
#define COST_WINDOW 1

static const uint32_t channel_failures[] = {400, 404, 409, 413, 416, 429, 500, 507};

int
channel_open(struct job *j)
{
	struct session *s = j->s;
	int ch, last = j->kind == JOB_EXEC ? CHANNEL_FILES - 1 : GUEST_CHANNELS;

	if (j->kind == JOB_EXEC && s->nexecs >= EXECS_MAX)
		return -1;
	for (ch = last; ch > 0 && s->channels[ch] != NULL; ch--)
		;
	if (ch == 0)
		return -1;
	s->channels[ch] = j;
	s->nexecs += j->kind == JOB_EXEC;
	j->channel = (uint8_t)ch;
	j->guest_credit = j->our_credit = GUEST_WINDOW;
	return 0;
}

static const char *
channel_started(struct job *j, const struct frame *f)
{
	j->started = 1;
	return j->kind == JOB_EXEC ? exec_started(j, f) : file_started(j, f);
}

static const char *
channel_data(struct job *j, const struct frame *f)
{
	if (j->kind == JOB_READ ? !j->meta : !j->started)
		return "data before its time";
	return j->kind == JOB_SNAPSHOT ? pack_data(j, f) : file_data(j, f);
}

static const char *
channel_window(struct job *j, const struct frame *f)
{
	struct g_number w;

	memcpy(&w, f->data, sizeof(w));
	if (w.n == 0 || w.n > GUEST_WINDOW - j->our_credit)
		return "credit that nobody took";
	if (guest_charge(&j->s->guest, COST_WINDOW) == -1)
		return "too many control frames";
	j->our_credit += w.n;
	job_pump(j);
	return NULL;
}

/* END with anything but 200: the guest's word for the client, cleaned. */
static const char *
channel_failure(struct job *j, const struct g_end *end, const struct frame *f)
{
	char text[GUEST_TEXT_MAX + 1];
	struct r_error e = {.status = end->status, .retry_after = end->status == 429};
	size_t i;

	for (i = 0; i < sizeof(channel_failures) / sizeof(channel_failures[0]); i++) {
		if (channel_failures[i] == end->status)
			break;
	}
	if (i == sizeof(channel_failures) / sizeof(channel_failures[0]))
		return "END with an unknown status";
	if (end->status == 416 && (j->kind != JOB_READ || end->bytes < 0))
		return "END 416 where no range was asked for";
	if (end->status == 416)
		e.size = end->bytes;
	text_clean((const char *)f->data + sizeof(*end), f->len - sizeof(*end), text, sizeof(text));
	if (j->status == 0) {
		job_put(j, RECORD_ERROR, &e, sizeof(e), text, strlen(text), 0);
		job_decide(j, end->status, text);
	}
	job_over(j);
	return NULL;
}

static const char *
channel_end(struct job *j, const struct frame *f)
{
	struct g_end end;

	memcpy(&end, f->data, sizeof(end));
	job_release_channel(j);
	if (end.status != 200)
		return channel_failure(j, &end, f);
	if (j->closing) {
		/* It was finished before it read CLOSE; what the peer was told stands. */
		job_decide(j, STATUS_CLIENT_GONE, NULL);
		job_over(j);
		return NULL;
	}
	if (j->kind == JOB_EXEC)
		return "END 200 for a command";
	return (j->kind & JOB_FILES) ? pack_end(j, &end) : file_end(j, &end);
}

static const char *
channel_stat(struct session *s, const struct frame *f)
{
	struct g_stat stat;

	if (guest_charge(&s->guest, COST_STAT) == -1)
		return "too many control frames";
	memcpy(&stat, f->data, sizeof(stat));
	if (stat.free_bytes < 0 || stat.free_inodes < 0)
		return "negative free space";
	session_disk(s, &stat);
	return NULL;
}

static const char *
channel_zero(struct session *s, const struct frame *f)
{
	if (f->type == G_STAT && f->len == sizeof(struct g_stat))
		return channel_stat(s, f);
	if (f->type == G_LISTENS && f->len >= sizeof(struct g_listens))
		return dial_listens(s, f);
	return "unexpected frame on channel 0";
}

static const struct channel_rule *
channel_rule(uint8_t type)
{
	size_t i;

	for (i = 0; i < sizeof(channel_rules) / sizeof(channel_rules[0]); i++) {
		if (channel_rules[i].type == type)
			return &channel_rules[i];
	}
	return NULL;
}

const char *
channel_frame(struct session *s, const struct frame *f)
{
	const struct channel_rule *r;
	struct job *j;

	if (f->flags != 0)
		return "frame with flags";
	if (f->channel == 0)
		return channel_zero(s, f);
	if (f->channel > GUEST_CHANNELS && f->channel <= GUEST_CHANNELS + GUEST_DIALS)
		return dial_frame(s, f);
	if (f->channel > GUEST_CHANNELS || (j = s->channels[f->channel]) == NULL)
		return "frame on a closed channel";
	r = channel_rule(f->type);
	if (r == NULL || !(r->jobs & j->kind))
		return "frame of a wrong type";
	if (f->len < r->min || f->len > r->max)
		return "frame of a wrong length";
	if ((r->need == NEED_NEW && j->started) || (r->need == NEED_STARTED && !j->started))
		return "frame out of order";
	if (r->credited) {
		if (f->len > j->guest_credit)
			return "more data than credit";
		j->guest_credit -= f->len;
	}
	job_heard(j);
	return r->act(j, f);
}
