/* The routes of files: read, write, list. */
#include <event2/buffer.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apid/apid.h"
#include "apid/files.h"
#include "apid/json_out.h"
#include "apid/managerd.h"
#include "apid/object.h"
#include "apid/route.h"
#include "common/ids.h"
#include "common/log.h"

#define LIST_PIECE (64 * 1024) /* a longer list is sent as it comes */

static void
file_free(struct req *r)
{
	struct file *f = r->state;

	xfer_close(&f->x);
	evbuffer_free(f->out);
	free(f);
	r->state = NULL;
}

static int
read_path(struct req *r, struct file *f, const char *fallback, int in_workspace)
{
	static const char base[] = "/workspace";
	char value[TARGET_MAX + 1];
	const char *why = "must be given";
	size_t n, len = sizeof(base) - 1;

	switch (query_get(r->query, "path", value, &n)) {
	case QUERY_NONE:
		if (fallback == NULL) {
			req_error(r, 422, "path: %s", why);
			return -1;
		}
		n = strlen(fallback);
		memcpy(value, fallback, n + 1);
		break;
	case QUERY_BAD:
		req_error(r, 400, "path: malformed percent-encoding, or given twice");
		return -1;
	default:
		break;
	}
	if ((why = path_normalise(value, n, f->path)) != NULL) {
		req_error(r, 400, "path: %s", why);
		return -1;
	}
	if (in_workspace == 1 && value[n - 1] == '/') {
		req_error(r, 400, "path: ends with a slash; a file's name is needed");
		return -1;
	}
	if (!in_workspace || (strncmp(f->path, base, len) == 0 && f->path[len] == '/') ||
	    (in_workspace == 2 && strcmp(f->path, base) == 0))
		return 0;
	req_error(r, 400, "path: only files under /workspace can be written");
	return -1;
}

struct file *
file_new(struct req *r, const char *fallback, int in_workspace)
{
	struct file *f;

	if (r->id == 0) {
		object_unknown(r);
		return NULL;
	}
	if ((f = calloc(1, sizeof(*f))) == NULL)
		fatal("calloc");
	f->out = buffer_new();
	f->m.sandbox = r->id;
	f->m.job.size = -1;
	r->state = f;
	r->cleanup = file_free;
	return read_path(r, f, fallback, in_workspace) == 0 ? f : NULL;
}

void
file_upload_end(struct xfer *x)
{
	struct r_done done = {(int64_t)req_body_bytes(x->r)};

	data_send(x->data, RECORD_DONE, &done, sizeof(done));
}

void
file_info(struct evbuffer *out, const char *dir, const char *name, size_t n, int type, int64_t size,
    int64_t mtime_ns)
{
	static const char *const types[] = {"file", "directory", "symlink", "other"};
	char when[TIME_TEXT_MAX], path[FILE_PATH_MAX + 1 + 4096];
	size_t len = strlen(dir);

	memcpy(path, dir, len);
	if (len == 0 || path[len - 1] != '/')
		path[len++] = '/';
	if (n > sizeof(path) - len)
		n = sizeof(path) - len;
	memcpy(path + len, name, n);
	evbuffer_add(out, "{\"name\":", 8);
	out_string(out, name, n);
	evbuffer_add(out, ",\"path\":", 8);
	out_string(out, path, len + n);
	evbuffer_add_printf(out, ",\"type\":\"%s\",\"size\":%lld,\"modified_at\":\"%s\"}",
	    types[type >= FILE_REGULAR && type <= FILE_OTHER ? type : FILE_OTHER], (long long)size,
	    time_text(when, mtime_ns / 1000));
}

void
file_forward(struct file *f, const uint8_t *p, size_t n)
{
	f->bytes += (int64_t)n;
	evbuffer_add(f->out, p, n);
	xfer_write(&f->x, f->out);
}

/* The answer to GET and HEAD begins: what will come is known exactly. */
static void
begin_download(struct file *f)
{
	struct req *r = f->x.r;
	const struct r_meta *m = &f->meta;
	int part = f->m.job.range != RANGE_ALL;
	char range[96];

	req_header(r, "Accept-Ranges", "bytes");
	if (part) {
		snprintf(range, sizeof(range), "bytes %lld-%lld/%lld", (long long)m->first,
		    (long long)(m->first + m->length - 1), (long long)m->size);
		req_header(r, "Content-Range", range);
	}
	req_stream_start(r, part ? 206 : 200, "application/octet-stream", m->length);
	if (r->head.method == METHOD_HEAD)
		req_stream_end(r);
}

static int
read_meta(struct file *f, const uint8_t *p, size_t n)
{
	if (f->has_meta || n != sizeof(f->meta))
		return -1;
	memcpy(&f->meta, p, n);
	if (f->meta.length < 0 || f->meta.size < 0 || f->meta.first < 0 ||
	    f->meta.first > f->meta.size || f->meta.length > f->meta.size - f->meta.first)
		return -1;
	f->has_meta = 1;
	return 0;
}

static void
on_download(struct xfer *x, uint8_t type, const uint8_t *p, size_t n)
{
	struct file *f = (struct file *)x;

	switch (type) {
	case RECORD_META:
		if (read_meta(f, p, n) == 0) {
			begin_download(f);
			return;
		}
		break;
	case RECORD_DATA:
		if (f->has_meta && (int64_t)n <= f->meta.length - f->bytes) {
			file_forward(f, p, n);
			return;
		}
		break;
	case RECORD_DONE:
		if (f->has_meta && f->bytes == f->meta.length) {
			req_stream_end(x->r);
			return;
		}
		break;
	default:
		break;
	}
	xfer_nonsense(x);
}

void
file_get(struct req *r)
{
	static const struct xfer_ops ops = {.record = on_download};
	struct file *f = file_new(r, NULL, 0);
	struct range range;
	int fd;

	if (f == NULL)
		return;
	/* We give out no validators, so that the one of If-Range cannot be ours: all of the file.
	 */
	if (r->head.field[FIELD_IF_RANGE].p == NULL &&
	    range_parse(r->head.field[FIELD_RANGE], &range) == 0) {
		f->m.job.range = (uint8_t)range.kind;
		f->m.job.first = range.first;
		f->m.job.last = range.last;
	}
	f->m.job.max = apid.config->num[CFG_MAX_FILE_BYTES];
	f->m.job.head_only = r->head.method == METHOD_HEAD;
	if (xfer_open(&f->x, r, &ops, &fd) == -1)
		return;
	req_ask(r, &f->m.ask);
	send_FILE_READ(apid.managerd, f->x.call, &f->m, f->path, strlen(f->path), fd);
}

static void
on_upload(struct xfer *x, uint8_t type, const uint8_t *p, size_t n)
{
	struct file *f = (struct file *)x;
	struct evbuffer *out;
	char *name;

	if (type == RECORD_META && read_meta(f, p, n) == 0)
		return;
	if (type != RECORD_DONE || !f->has_meta) {
		xfer_nonsense(x);
		return;
	}
	name = strrchr(f->path, '/');
	*name++ = '\0';
	out = buffer_new();
	file_info(out, f->path, name, strlen(name), FILE_REGULAR, f->meta.size, f->meta.mtime_ns);
	req_reply(x->r, 200, out);
}

static void
begin_upload(struct xfer *x)
{
	xfer_upload(x, RECORD_DATA, (uint64_t)apid.config->num[CFG_MAX_FILE_BYTES],
	    "the file is larger than AGENT_SANDBOX_MAX_FILE_BYTES", file_upload_end);
}

/* ?mode=: three or four octal digits. */
static int
read_mode(struct req *r, uint32_t *mode)
{
	char value[TARGET_MAX + 1];
	size_t n;

	*mode = 0644;
	switch (query_get(r->query, "mode", value, &n)) {
	case QUERY_NONE:
		return 0;
	case QUERY_GIVEN:
		if ((n != 3 && n != 4) || strspn(value, "01234567") != n)
			break;
		*mode = (uint32_t)strtoul(value, NULL, 8);
		if (*mode <= 0777)
			return 0;
		req_error(r, 400, "mode: must be at most 777");
		return -1;
	default:
		break;
	}
	req_error(r, 422, "mode: must be three or four octal digits");
	return -1;
}

void
file_put(struct req *r)
{
	static const struct xfer_ops ops = {
	    .record = on_upload, .accepted = begin_upload, .drained = xfer_uploaded};
	struct file *f = file_new(r, NULL, 1);
	int fd;

	if (f == NULL || read_mode(r, &f->m.job.mode) == -1)
		return;
	f->m.job.max = apid.config->num[CFG_MAX_FILE_BYTES];
	if (!r->head.chunked)
		f->m.job.size = (int64_t)r->head.length;
	if (f->m.job.size > f->m.job.max) {
		req_error(r, 413, "the file is larger than AGENT_SANDBOX_MAX_FILE_BYTES (%lld)",
		    (long long)f->m.job.max);
		return;
	}
	if (xfer_open(&f->x, r, &ops, &fd) == -1)
		return;
	req_ask(r, &f->m.ask);
	send_FILE_WRITE(apid.managerd, f->x.call, &f->m, f->path, strlen(f->path), fd);
}

static void
list_end(struct file *f)
{
	struct req *r = f->x.r;
	struct evbuffer *out = f->out;

	evbuffer_add(out, "]}", 2);
	if (!r->started) {
		f->out = buffer_new();
		req_reply(r, 200, out);
		return;
	}
	req_stream_write(r, out);
	req_stream_end(r);
}

static void
on_entry(struct xfer *x, uint8_t type, const uint8_t *p, size_t n)
{
	struct file *f = (struct file *)x;
	struct r_entry e;

	if (type == RECORD_DONE) {
		list_end(f);
		return;
	}
	if (type != RECORD_ENTRY || n <= sizeof(e) || n > sizeof(e) + 4096) {
		xfer_nonsense(x);
		return;
	}
	memcpy(&e, p, sizeof(e));
	if (f->entries)
		evbuffer_add(f->out, ",", 1);
	f->entries = 1;
	file_info(f->out, f->path, (const char *)p + sizeof(e), n - sizeof(e), e.type, e.size,
	    e.mtime_ns);
	if (evbuffer_get_length(f->out) < LIST_PIECE)
		return;
	if (!x->r->started)
		req_stream_start(x->r, 200, "application/json", -1);
	xfer_write(x, f->out);
}

void
file_list(struct req *r)
{
	static const struct xfer_ops ops = {.record = on_entry};
	struct file *f = file_new(r, "/workspace", 0);
	int fd;

	if (f == NULL)
		return;
	evbuffer_add(f->out, "{\"path\":", 8);
	out_cstring(f->out, f->path);
	evbuffer_add_printf(f->out, ",\"entries\":[");
	if (xfer_open(&f->x, r, &ops, &fd) == -1)
		return;
	req_ask(r, &f->m.ask);
	send_FILE_LIST(apid.managerd, f->x.call, &f->m, f->path, strlen(f->path), fd);
}
