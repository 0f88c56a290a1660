/* The routes of archives: a tar of a file or folder, out and in. apid never looks into one. */
#include <event2/buffer.h>
#include <string.h>

#include "apid/apid.h"
#include "apid/files.h"
#include "apid/json_out.h"
#include "apid/managerd.h"
#include "apid/route.h"

/* The answer begins with the first bytes: what goes wrong before them is still an answer of its
 * own. */
static void
on_download(struct xfer *x, uint8_t type, const uint8_t *p, size_t n)
{
	struct file *f = (struct file *)x;
	struct req *r = x->r;
	struct r_done done;

	if (type == RECORD_STARTED && !f->has_meta) {
		f->has_meta = 1;
		return;
	}
	if (type == RECORD_DATA && f->has_meta) {
		if (!r->started)
			req_stream_start(r, 200, "application/x-tar", -1);
		if (r->head.method == METHOD_HEAD)
			req_stream_end(r);
		else
			file_forward(f, p, n);
		return;
	}
	if (type == RECORD_DONE && r->started && n == sizeof(done)) {
		memcpy(&done, p, sizeof(done));
		if (done.bytes == f->bytes) {
			req_stream_end(r);
			return;
		}
	}
	xfer_nonsense(x);
}

void
archive_get(struct req *r)
{
	static const struct xfer_ops ops = {.record = on_download};
	struct file *f = file_new(r, NULL, 0);
	int fd;

	if (f == NULL)
		return;
	f->m.job.max = apid.config->num[CFG_MAX_SNAPSHOT_BYTES];
	if (xfer_open(&f->x, r, &ops, &fd) == -1)
		return;
	req_ask(r, &f->m.ask);
	send_ARCHIVE_GET(apid.managerd, f->x.call, &f->m, f->path, strlen(f->path), fd);
}

static void
on_upload(struct xfer *x, uint8_t type, const uint8_t *p, size_t n)
{
	struct file *f = (struct file *)x;
	struct evbuffer *out;
	struct r_done done;

	if (type != RECORD_DONE || n != sizeof(done)) {
		xfer_nonsense(x);
		return;
	}
	memcpy(&done, p, sizeof(done));
	out = buffer_new();
	evbuffer_add(out, "{\"path\":", 8);
	out_cstring(out, f->path);
	evbuffer_add_printf(out, ",\"archive_bytes\":%lld}", (long long)done.bytes);
	req_reply(x->r, 200, out);
}

static void
begin_upload(struct xfer *x)
{
	xfer_upload(x, RECORD_DATA, (uint64_t)apid.config->num[CFG_MAX_SNAPSHOT_BYTES],
	    "the archive is larger than AGENT_SANDBOX_MAX_SNAPSHOT_BYTES", file_upload_end);
}

void
archive_put(struct req *r)
{
	static const struct xfer_ops ops = {
	    .record = on_upload, .accepted = begin_upload, .drained = xfer_uploaded};
	struct file *f = file_new(r, NULL, 2);
	int fd;

	if (f == NULL)
		return;
	f->m.job.max = apid.config->num[CFG_MAX_SNAPSHOT_BYTES];
	if (!r->head.chunked)
		f->m.job.size = (int64_t)r->head.length;
	if (f->m.job.size > f->m.job.max) {
		req_error(r, 413,
		    "the archive is larger than AGENT_SANDBOX_MAX_SNAPSHOT_BYTES (%lld)",
		    (long long)f->m.job.max);
		return;
	}
	if (xfer_open(&f->x, r, &ops, &fd) == -1)
		return;
	req_ask(r, &f->m.ask);
	send_ARCHIVE_PUT(apid.managerd, f->x.call, &f->m, f->path, strlen(f->path), fd);
}
