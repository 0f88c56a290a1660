/* File verbs and archives: requests, the metadata and bytes that come back, the bytes that go in.
 */
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "sessiond/job.h"

#define NAME_MAX_BYTES 255
#define ENTRY_ALIGN 8

void
file_request(struct job *j, uint8_t type, const struct g_file *g, const char *path)
{
	uint8_t frame[sizeof(*g) + PATH_TAIL_MAX];
	size_t len = strlen(path);

	if (len > PATH_TAIL_MAX)
		fatalx("path of %zu bytes", len);
	memcpy(frame, g, sizeof(*g));
	memcpy(frame + sizeof(*g), path, len);
	guest_send(j->s, type, j->channel, frame, (uint32_t)(sizeof(*g) + len));
}

void
file_open(struct job *j)
{
	struct g_file g = {.max = j->file.max, .size = -1, .path_len = (uint16_t)strlen(j->path)};
	uint8_t type = G_LIST;

	switch (j->kind) {
	case JOB_READ:
		type = G_READ;
		g.first = j->file.first;
		g.last = j->file.last;
		g.range = j->file.range;
		g.flags = j->file.head_only ? G_FLAG_HEAD : 0;
		break;
	case JOB_WRITE:
		type = G_WRITE;
		g.mode = j->file.mode;
		g.size = j->file.size;
		g.flags = G_FLAG_WORKSPACE | G_FLAG_PARENTS;
		break;
	case JOB_REMOVE:
		type = G_REMOVE;
		g.first = j->file.first;
		g.size = j->file.size;
		g.flags = G_FLAG_WORKSPACE;
		break;
	case JOB_ARCHIVE_GET:
		type = G_EXPORT;
		break;
	case JOB_ARCHIVE_PUT:
		type = G_IMPORT;
		g.flags = G_FLAG_WORKSPACE | G_FLAG_PARENTS;
		break;
	default:
		break;
	}
	file_request(j, type, &g, j->path);
}

const char *
file_started(struct job *j, const struct frame *f)
{
	(void)f;
	if (j->kind == JOB_ARCHIVE_GET)
		job_put(j, RECORD_STARTED, NULL, 0, NULL, 0, 0);
	job_pump(j);
	return NULL;
}

static int
file_meta_valid(const struct job *j, const struct g_meta *g)
{
	if (g->size < 0 || g->first < 0 || g->length < 0 || g->mode > 07777 ||
	    g->type != FILE_REGULAR)
		return 0;
	if (g->first > g->size || g->length > g->size - g->first)
		return 0;
	return j->kind != JOB_READ || j->file.head_only || j->file.max < 0 ||
	       g->length <= j->file.max;
}

const char *
file_meta(struct job *j, const struct frame *f)
{
	struct g_meta g;

	memcpy(&g, f->data, sizeof(g));
	if (j->meta || (j->kind == JOB_WRITE && !j->sent_end && !j->closing))
		return "META out of order";
	if (!file_meta_valid(j, &g))
		return "META with impossible values";
	j->meta = 1;
	j->about.size = g.size;
	j->about.mtime_ns = g.mtime_ns;
	j->about.first = g.first;
	j->about.length = g.length;
	j->about.mode = g.mode;
	j->about.type = g.type;
	job_put(j, RECORD_META, &j->about, sizeof(j->about), NULL, 0, 0);
	return NULL;
}

const char *
file_data(struct job *j, const struct frame *f)
{
	j->bytes_out += f->len;
	if (j->kind == JOB_READ && (j->file.head_only || j->bytes_out > j->about.length))
		return "more bytes than META said";
	if (j->kind == JOB_ARCHIVE_GET && j->file.max >= 0 && j->bytes_out > j->file.max &&
	    !j->closing)
		job_fail(j, 413, "the archive is larger than %lld bytes", (long long)j->file.max);
	job_put(j, RECORD_DATA, NULL, 0, f->data, f->len, 1);
	return NULL;
}

static int
file_entry_valid(const struct g_entry *g, const char *name)
{
	if (g->size < 0 || g->mode > 07777 || g->type > FILE_OTHER)
		return 0;
	if (memchr(name, '/', g->name_len) != NULL || memchr(name, '\0', g->name_len) != NULL)
		return 0;
	return !(name[0] == '.' && (g->name_len == 1 || (g->name_len == 2 && name[1] == '.')));
}

/* One entry at p[0..n); returns how many bytes it takes, or 0 when it is not one. */
static size_t
file_entry_one(const uint8_t *p, size_t n, struct g_entry *g)
{
	static const uint8_t zeros[ENTRY_ALIGN];
	size_t len, whole;

	if (n < sizeof(*g))
		return 0;
	memcpy(g, p, sizeof(*g));
	len = sizeof(*g) + g->name_len;
	whole = (len + ENTRY_ALIGN - 1) / ENTRY_ALIGN * ENTRY_ALIGN;
	if (g->name_len == 0 || g->name_len > NAME_MAX_BYTES || whole > n)
		return 0;
	if (!file_entry_valid(g, (const char *)p + sizeof(*g)) ||
	    memcmp(p + len, zeros, whole - len) != 0)
		return 0;
	return whole;
}

/* A record is at most five bytes longer than its entry, so that the frame's credit bounds them too:
 * data_sent() gives it back in proportion. */
const char *
file_entry(struct job *j, const struct frame *f)
{
	struct r_entry r = {0};
	struct g_entry g;
	size_t at, len;

	for (at = 0; at < f->len; at += len) {
		len = file_entry_one(f->data + at, f->len - at, &g);
		if (len == 0)
			return "malformed ENTRY";
		r.size = g.size;
		r.mtime_ns = g.mtime_ns;
		r.mode = g.mode;
		r.type = g.type;
		job_put(j, RECORD_ENTRY, &r, sizeof(r), f->data + at + sizeof(g), g.name_len, 0);
	}
	j->bytes_out += f->len;
	data_charge(&j->data, f->len);
	job_give(j);
	return NULL;
}

static void
file_done(struct job *j, int64_t bytes)
{
	struct r_done r = {.bytes = bytes};

	job_put(j, RECORD_DONE, &r, sizeof(r), NULL, 0, 0);
	job_decide(j, 200, NULL);
	job_over(j);
}

const char *
file_end(struct job *j, const struct g_end *end)
{
	switch (j->kind) {
	case JOB_READ:
		if (!j->meta || end->bytes != j->bytes_out)
			return "bytes that do not match";
		if (!j->file.head_only && j->bytes_out < j->about.length) {
			job_fail(j, 500, "the file changed while it was read");
			return NULL;
		}
		break;
	case JOB_WRITE:
		if (!j->meta || !j->sent_end || end->bytes != j->bytes_in)
			return "bytes that do not match";
		break;
	case JOB_ARCHIVE_PUT:
		if (!j->sent_end || end->bytes != j->bytes_in)
			return "bytes that do not match";
		break;
	case JOB_ARCHIVE_GET:
		if (!j->started || end->bytes != j->bytes_out)
			return "bytes that do not match";
		break;
	default:
		file_done(j, 0);
		return NULL;
	}
	file_done(j, end->bytes);
	return NULL;
}

/* The client's own count is compared before the guest is told that the file is whole. */
static void
file_pump_done(struct job *j, const struct data_record *r)
{
	struct r_done done = {.bytes = -1};
	struct g_size size = {.bytes = j->bytes_in};

	if (r->len == sizeof(done))
		memcpy(&done, r->p, sizeof(done));
	if (done.bytes != j->bytes_in) {
		job_fail(j, 500, "the upload is not as long as announced");
		return;
	}
	data_take(&j->data, r->len);
	j->sent_end = 1;
	job_heard(j);
	guest_send(j->s, G_DATA_END, j->channel, &size, sizeof(size));
}

/* As exec_pump_record(). */
static int
file_pump_record(struct job *j)
{
	struct data_record r;

	switch (data_next(&j->data, RECORD_MAX, &r)) {
	case DATA_AGAIN:
		return -1;
	case DATA_EOF:
		data_close(&j->data);
		job_decide(j, STATUS_CLIENT_GONE, NULL);
		job_close(j);
		return -1;
	case DATA_BAD:
		job_fail(j, 500, "malformed upload");
		return -1;
	case DATA_RECORD:
		break;
	}
	if (r.type == RECORD_DONE) {
		file_pump_done(j, &r);
		return -1;
	}
	if (r.type != RECORD_DATA) {
		job_fail(j, 500, "malformed upload");
		return -1;
	}
	job_forward(j, G_DATA, &r);
	return 0;
}

void
file_pump(struct job *j)
{
	if (!j->started)
		return;
	while (j->our_credit > 0 && !guest_full(j->s)) {
		if (file_pump_record(j) == -1)
			return;
	}
}
