/*
 * Snapshots: the guest's tar goes through SHA-256 and zstd into a file, and back. Nobody here looks
 * into the tar. Every step is bounded by a frame, so that other channels keep flowing.
 */
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zstd.h>

#include "common/log.h"
#include "sessiond/job.h"
#include "sessiond/sha256.h"

#define PACK_LEVEL 1
#define PACK_WINDOW_LOG 22 /* what level 1 needs, and some; more is not a file of ours */
#define PACK_BUF 65536
#define PACK_STEPS 2 /* at a time, then other events have their turn */
#define PACK_PATH "/workspace"

struct pack {
	int fd;
	char request_id[72]; /* for the log; "": not known */
	ZSTD_CCtx *c;
	ZSTD_DCtx *d;
	struct sha256 *sum;
	int64_t size;   /* SNAPSHOT: at most; RESTORE: exactly */
	int64_t most;   /* SNAPSHOT: bytes of the file; 0: any */
	int64_t stored; /* bytes of the file, so far */
	uint8_t want[SHA256_BYTES];
	uint8_t *buf; /* of compressed bytes */
	size_t len;   /* RESTORE: bytes in it, */
	size_t at;    /* of which these are used */
	size_t left;  /* RESTORE: 0 when zstd's frame is over */
	struct event step;
	uint8_t has_step;
};

static int
pack_fd_valid(int fd, int writing)
{
	struct stat st;
	int mode = fcntl(fd, F_GETFL);

	if (mode == -1 || fstat(fd, &st) == -1 || !S_ISREG(st.st_mode))
		return 0;
	mode &= O_ACCMODE;
	if (writing)
		return (mode == O_WRONLY || mode == O_RDWR) && st.st_size == 0;
	return mode == O_RDONLY || mode == O_RDWR;
}

struct pack *
pack_new(int fd, const struct m_s_snapshot *snapshot, const struct m_s_restore *restore)
{
	struct pack *p;

	if (!pack_fd_valid(fd, snapshot != NULL) ||
	    (snapshot != NULL &&
		(snapshot->max_bytes < 0 || snapshot->max_stored < 0 ||
		    memchr(snapshot->request_id, '\0', sizeof(snapshot->request_id)) == NULL)) ||
	    (restore != NULL && restore->size_bytes < 0))
		return NULL;
	if ((p = calloc(1, sizeof(*p))) == NULL)
		fatal("snapshot");
	p->fd = fd;
	p->left = 1;
	if (snapshot != NULL) {
		p->size = snapshot->max_bytes;
		p->most = snapshot->max_stored;
		memcpy(p->request_id, snapshot->request_id, sizeof(p->request_id));
	}
	if (restore != NULL) {
		p->size = restore->size_bytes;
		memcpy(p->want, restore->sha256, sizeof(p->want));
	}
	return p;
}

void
pack_free(struct pack *p)
{
	if (p == NULL)
		return;
	if (p->has_step)
		event_del(&p->step);
	ZSTD_freeCCtx(p->c);
	ZSTD_freeDCtx(p->d);
	sha256_free(p->sum);
	free(p->buf);
	close(p->fd);
	free(p);
}

static void
pack_step(evutil_socket_t fd, short what, void *arg)
{
	struct job *j = arg;
	struct session *s = j->s;

	(void)fd;
	(void)what;
	job_pump(j);
	session_batch_end(s);
}

void
pack_open(struct job *j)
{
	struct pack *p = j->pack;
	struct g_file g = {.size = -1, .max = p->size, .path_len = sizeof(PACK_PATH) - 1};

	p->sum = sha256_new();
	if ((p->buf = malloc(PACK_BUF)) == NULL)
		fatal("snapshot");
	if (j->kind == JOB_SNAPSHOT) {
		if ((p->c = ZSTD_createCCtx()) == NULL)
			fatalx("snapshot: zstd");
		ZSTD_CCtx_setParameter(p->c, ZSTD_c_compressionLevel, PACK_LEVEL);
		ZSTD_CCtx_setParameter(p->c, ZSTD_c_checksumFlag, 1);
		g.flags = G_FLAG_FREEZE;
		session_freeze(j->s, 1);
		file_request(j, G_EXPORT, &g, PACK_PATH);
		return;
	}
	if ((p->d = ZSTD_createDCtx()) == NULL)
		fatalx("restore: zstd");
	ZSTD_DCtx_setParameter(p->d, ZSTD_d_windowLogMax, PACK_WINDOW_LOG);
	if (evtimer_assign(&p->step, j->s->base, pack_step, j) == -1)
		fatalx("restore: event");
	p->has_step = 1;
	g.flags = G_FLAG_RESTORE;
	file_request(j, G_IMPORT, &g, PACK_PATH);
}

/* 0, or the status that errno means. */
static uint32_t
pack_write(struct pack *p, size_t len)
{
	size_t at = 0;
	ssize_t n;

	if (p->most > 0 && p->stored + (int64_t)len > p->most)
		return 429;
	while (at < len) {
		n = write(p->fd, p->buf + at, len - at);
		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1 && errno == EFBIG)
			return 413;
		if (n == -1 && (errno == ENOSPC || errno == EDQUOT))
			return 507;
		if (n == -1) {
			log_request(p->request_id);
			log_warn("snapshot: write");
			log_request(NULL);
			return 500;
		}
		at += (size_t)n;
		p->stored += n;
	}
	return 0;
}

static uint32_t
pack_compress(struct pack *p, const void *data, size_t len, ZSTD_EndDirective end)
{
	ZSTD_inBuffer in = {data, len, 0};
	ZSTD_outBuffer out = {p->buf, PACK_BUF, 0};
	uint32_t status;
	size_t left;

	do {
		out.pos = 0;
		left = ZSTD_compressStream2(p->c, &out, &in, end);
		if (ZSTD_isError(left)) {
			log_request(p->request_id);
			log_warnx("snapshot: zstd: %s", ZSTD_getErrorName(left));
			log_request(NULL);
			return 500;
		}
		if ((status = pack_write(p, out.pos)) != 0)
			return status;
	} while (end == ZSTD_e_end ? left > 0 : in.pos < in.size);
	return 0;
}

static void
pack_failed(struct job *j, uint32_t status)
{
	switch (status) {
	case 413:
		job_fail(j, status, "the snapshot is larger than MAX_SNAPSHOT_BYTES");
		break;
	case 429:
		job_fail(j, status, "tenant quota of bytes of snapshots reached");
		break;
	case 507:
		job_fail(j, status, "no space is left for snapshots");
		break;
	default:
		job_fail(j, status, "the snapshot could not be written");
		break;
	}
}

const char *
pack_data(struct job *j, const struct frame *f)
{
	uint32_t status = 0;

	j->bytes_out += f->len;
	if (j->status == 0) {
		if (j->bytes_out > j->pack->size)
			status = 413;
		if (status == 0) {
			sha256_add(j->pack->sum, f->data, f->len);
			status = pack_compress(j->pack, f->data, f->len, ZSTD_e_continue);
		}
		if (status != 0)
			pack_failed(j, status);
	}
	j->owed += f->len;
	job_give(j);
	return NULL;
}

static void
pack_snapped(struct job *j)
{
	struct pack *p = j->pack;
	struct m_s_snapped m = {.size_bytes = j->bytes_out};
	uint32_t status;

	status = pack_compress(p, NULL, 0, ZSTD_e_end);
	if (status == 0 && fsync(p->fd) == -1) {
		log_request(p->request_id);
		log_warn("snapshot: fsync");
		log_request(NULL);
		status = errno == ENOSPC || errno == EDQUOT ? 507 : 500;
	}
	if (status != 0) {
		pack_failed(j, status);
		return;
	}
	sha256_end(p->sum, m.sha256);
	p->sum = NULL;
	m.stored_bytes = p->stored;
	send_S_SNAPPED(j->s->manager, j->id, &m, NULL, 0, -1);
	job_decide(j, 200, NULL);
	job_over(j);
}

const char *
pack_end(struct job *j, const struct g_end *end)
{
	if (!j->started)
		return "END before STARTED";
	if (j->kind == JOB_SNAPSHOT) {
		if (end->bytes != j->bytes_out)
			return "bytes that do not match";
		pack_snapped(j);
		return NULL;
	}
	if (!j->sent_end || end->bytes != j->bytes_in)
		return "bytes that do not match";
	job_decide(j, 200, NULL);
	job_over(j);
	return NULL;
}

/* Up to n bytes of tar into out. Returns how many, 0 at the end of the file, -1 when it is damaged.
 */
static ssize_t
pack_expand(struct pack *p, void *out, size_t n)
{
	ZSTD_outBuffer to = {out, n, 0};
	ZSTD_inBuffer in;
	ssize_t got;

	for (;;) {
		if (p->at < p->len && p->left == 0)
			return -1;
		if (p->left != 0) {
			in = (ZSTD_inBuffer){p->buf, p->len, p->at};
			p->left = ZSTD_decompressStream(p->d, &to, &in);
			if (ZSTD_isError(p->left))
				return -1;
			p->at = in.pos;
		}
		if (to.pos > 0)
			return (ssize_t)to.pos;
		if (p->at < p->len)
			continue;
		got = pread(p->fd, p->buf, PACK_BUF, p->stored);
		if (got == -1 && errno == EINTR)
			continue;
		if (got <= 0)
			return got == 0 && p->left == 0 ? 0 : -1;
		p->stored += got;
		p->len = (size_t)got;
		p->at = 0;
	}
}

/* The whole file was sent: is it what managerd has on record? */
static void
pack_expanded(struct job *j)
{
	struct pack *p = j->pack;
	struct g_size size = {.bytes = j->bytes_in};
	uint8_t sum[SHA256_BYTES];

	sha256_end(p->sum, sum);
	p->sum = NULL;
	if (j->bytes_in != p->size || memcmp(sum, p->want, sizeof(sum)) != 0) {
		job_fail(j, 500, "the snapshot's file is damaged");
		return;
	}
	j->sent_end = 1;
	job_heard(j);
	guest_send(j->s, G_DATA_END, j->channel, &size, sizeof(size));
}

void
pack_pump(struct job *j)
{
	struct pack *p = j->pack;
	uint8_t tar[FRAME_DATA_MAX];
	ssize_t n;
	int i;

	if (!j->started)
		return;
	for (i = 0; i < PACK_STEPS && j->our_credit > 0 && !guest_full(j->s); i++) {
		n = pack_expand(p, tar, j->our_credit < sizeof(tar) ? j->our_credit : sizeof(tar));
		if (n == 0) {
			pack_expanded(j);
			return;
		}
		if (n < 0 || j->bytes_in + n > p->size) {
			job_fail(j, 500, "the snapshot's file is damaged");
			return;
		}
		sha256_add(p->sum, tar, (size_t)n);
		guest_send_data(j->s, G_DATA, j->channel, tar, (uint32_t)n);
		j->our_credit -= (uint32_t)n;
		j->bytes_in += n;
	}
	if (j->our_credit > 0 && !guest_full(j->s))
		event_active(&p->step, EV_TIMEOUT, 1);
}
