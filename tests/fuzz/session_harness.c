/* A session for fuzz targets: a job of each kind, all peers in this process, nothing that waits. */
#include <sys/mman.h>
#include <sys/socket.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <event2/event.h>
#include <zstd.h>

#include "common/chan_event.h"
#include "common/log.h"
#include "common/record.h"
#include "sessiond/dial.h"
#include "sessiond/sha256.h"
#include "tests/fuzz/session_harness.h"

static void
pair(int type, int fd[2])
{
	if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fd) == -1)
		fatal("socketpair");
}

static void
manager_is_gone(struct chan *c)
{
	(void)c;
	fatalx("managerd's end is closed");
}

void
harness_open(struct harness *h, uint32_t framing)
{
	int fd[2];

	log_init("fuzz", LOG_LEVEL_ERROR);
	memset(h, 0, sizeof(*h));
	if ((h->base = event_base_new()) == NULL)
		fatalx("event base");
	session_init(&h->s, h->base);
	pair(SOCK_SEQPACKET, fd);
	h->manager = fd[0];
	h->s.manager = chan_event_new(h->base, fd[1], &managerd_sessiond_proto, SESSIOND, MANAGERD,
	    manager_message, manager_is_gone, &h->s);
	pair(SOCK_STREAM, fd);
	h->guest = fd[0];
	guest_attach(&h->s, fd[1], framing);
	event_del(&h->s.guest.ev_deadline);
	session_up(&h->s, GUEST_VERSION);
}

static int
harness_peer(struct harness *h)
{
	int fd[2];

	pair(SOCK_STREAM, fd);
	h->peers[h->njobs++] = fd[0];
	return fd[1];
}

int
harness_exec(struct harness *h, int with_stdin, int keep)
{
	static const uint8_t args[] = {1, 0, 0, 0, 0, 0, 0, 0, 'a', 0, '/', 0};
	uint8_t header[RECORD_HEADER];
	int fd = harness_peer(h);
	struct job *j = job_new(&h->s, (uint64_t)h->njobs, JOB_EXEC, fd);

	j->exec.timeout_us = 1000000;
	j->exec.args_len = sizeof(args);
	j->exec.stdin_follows = (uint8_t)with_stdin;
	j->exec.keep = (uint8_t)keep;
	sha256_once(args, sizeof(args), j->exec.args_sha256);
	record_header(header, RECORD_ARGS, sizeof(args));
	if (write(h->peers[h->njobs - 1], header, sizeof(header)) == -1 ||
	    write(h->peers[h->njobs - 1], args, sizeof(args)) == -1)
		fatal("write");
	exec_read_args(j);
	session_batch_end(&h->s);
	return h->njobs - 1;
}

int
harness_file(struct harness *h, enum job_kind kind)
{
	int fd = harness_peer(h);
	struct job *j = job_new(&h->s, (uint64_t)h->njobs, kind, fd);

	j->file.max = 100000;
	j->file.size = -1;
	if ((j->path = strdup("/workspace/f")) == NULL)
		fatal("strdup");
	job_ready(j);
	session_batch_end(&h->s);
	return h->njobs - 1;
}

int
harness_pack(struct harness *h, enum job_kind kind)
{
	static uint8_t tar[100000], packed[100000];
	struct m_s_snapshot snapshot = {.max_bytes = 500000};
	struct m_s_restore restore = {.size_bytes = sizeof(tar)};
	int fd = memfd_create("snapshot", MFD_CLOEXEC);
	struct job *j;
	size_t len;

	if (fd == -1)
		fatal("memfd_create");
	if (kind == JOB_RESTORE) {
		sha256_once(tar, sizeof(tar), restore.sha256);
		len = ZSTD_compress(packed, sizeof(packed), tar, sizeof(tar), 1);
		if (write(fd, packed, len) == -1)
			fatal("write");
	}
	h->peers[h->njobs++] = -1;
	j = job_new(&h->s, (uint64_t)h->njobs, kind, -1);
	j->pack =
	    kind == JOB_SNAPSHOT ? pack_new(fd, &snapshot, NULL) : pack_new(fd, NULL, &restore);
	job_ready(j);
	session_batch_end(&h->s);
	return h->njobs - 1;
}

static void
harness_read(int fd)
{
	static char scrap[65536];

	while (fd != -1 && recv(fd, scrap, sizeof(scrap), MSG_DONTWAIT) > 0)
		;
}

/* One packet for managerd; its descriptor, -1: without one, -2: there is none. */
static int
harness_receive(struct harness *h, char *packet, size_t size)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = {.iov_base = packet, .iov_len = size};
	struct msghdr msg = {.msg_iov = &iov,
	    .msg_iovlen = 1,
	    .msg_control = &control,
	    .msg_controllen = sizeof(control)};
	struct cmsghdr *c;
	int fd = -1;

	if (recvmsg(h->manager, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) <
	    (ssize_t)sizeof(struct msg_header))
		return -2;
	if ((c = CMSG_FIRSTHDR(&msg)) != NULL)
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

/* Every third dial is refused; what is behind the others sends back what it gets. */
static void
harness_dialed(struct harness *h, uint64_t id, int fd)
{
	if (id % 3 == 0 || h->ndials == HARNESS_DIALS) {
		dial_verdict(&h->s, id, DIAL_REFUSED, "no", 2);
		close(fd);
		return;
	}
	h->dials[h->ndials++] = fd;
	dial_verdict(&h->s, id, DIAL_OK, "", 0);
}

static void
harness_echo(int fd)
{
	static char bytes[65536];
	ssize_t n;

	while ((n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
		(void)!send(fd, bytes, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n == 0)
		shutdown(fd, SHUT_WR);
}

static void
harness_read_manager(struct harness *h)
{
	int fd;
	static _Alignas(8) char packet[MSG_MAX];
	struct msg_header head;

	while ((fd = harness_receive(h, packet, sizeof(packet))) != -2) {
		memcpy(&head, packet, sizeof(head));
		h->ended += head.type == MSG_S_JOB_END;
		if (head.type == MSG_S_DIAL)
			harness_dialed(h, head.id, fd);
	}
}

void
harness_turn(struct harness *h, int read)
{
	int i;

	session_batch_end(&h->s);
	event_base_loop(h->base, EVLOOP_NONBLOCK);
	harness_read_manager(h);
	if (!read)
		return;
	harness_read(h->guest);
	for (i = 0; i < h->njobs; i++)
		harness_read(h->peers[i]);
	for (i = 0; i < h->ndials; i++)
		harness_echo(h->dials[i]);
	event_base_loop(h->base, EVLOOP_NONBLOCK);
}

void
harness_close(struct harness *h)
{
	struct job *j;
	int i;

	session_down(&h->s, "the end");
	harness_turn(h, 1);
	harness_read_manager(h);
	if (h->ended != h->njobs)
		fatalx("%d jobs, %d ends", h->njobs, h->ended);
	for (i = 1; i <= GUEST_CHANNELS; i++) {
		if (h->s.channels[i] != NULL)
			fatalx("channel %d is still open", i);
	}
	if (h->s.ndials != 0 || h->s.nexecs != 0 || h->s.freezers != 0)
		fatalx("counts are wrong at the end");
	while ((j = TAILQ_FIRST(&h->s.jobs)) != NULL)
		job_free(j);
	session_batch_end(&h->s);
	chan_free(h->s.manager);
	for (i = 0; i < h->njobs; i++) {
		if (h->peers[i] != -1)
			close(h->peers[i]);
	}
	for (i = 0; i < h->ndials; i++)
		close(h->dials[i]);
	close(h->manager);
	close(h->guest);
	free(h->s.egress_list);
	free(h->s.env);
	event_base_free(h->base);
}
