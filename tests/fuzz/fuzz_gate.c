// link: apid/apid.o apid/archive.o apid/auth.o apid/browser.o apid/chunk.o apid/cors.o apid/data.o
// link: apid/env.o apid/exec.o apid/exec_request.o apid/files.o apid/gate.o apid/gate_body.o
// link: apid/gate_head.o apid/gate_listen.o apid/gate_peer.o apid/gate_tls.o apid/head.o
// link: apid/gate_metrics.o apid/metrics.o apid/metrics_get.o apid/metrics_text.o apid/health.o apid/json_in.o apid/json_out.o apid/keyd.o apid/keyless.o
// link: apid/keyless_sign.o apid/list.o apid/managerd.o apid/object.o apid/output.o apid/pages.o
// link: apid/path.o apid/peer.o apid/places.o apid/hold.o apid/proxy_header.o apid/req.o apid/req_in.o
// link: apid/route.o apid/run.o apid/run_request.o apid/sandboxes.o apid/snapshots.o apid/stream.o
// link: apid/tls.o apid/tls_bio.o apid/tls_ctx.o apid/tls_peer.o apid/tls_ticket.o apid/xfer.o common/base64.o
// link: common/keys_net.o -levent_openssl -levent_extra -levent_core -ljansson -lssl -lcrypto
/*
 * All of apid but its main(), over a real socket, with managerd and a session played in the same
 * loop: the input is what a client sends, in two parts; its first bytes say where it is cut and how
 * managerd answers.
 */
#include <event2/buffer.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "apid/apid.h"
#include "apid/gate.h"
#include "apid/managerd.h"
#include "apid/metrics.h"
#include "apid/places.h"
#include "common/chan_event.h"
#include "common/log.h"
#include "common/record.h"
#include "proto/data.h"
#include "proto/parent.h"

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

static struct config config;
static struct sockaddr_in address;
static struct chan *manager, *parent;
static uint8_t mood;

static void
put(int fd, uint8_t type, const void *p, uint32_t n)
{
	uint8_t header[RECORD_HEADER];

	record_header(header, type, n);
	if (send(fd, header, sizeof(header), MSG_DONTWAIT | MSG_NOSIGNAL) == -1 ||
	    (n > 0 && send(fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL) == -1))
		return;
}

/* What a session says at once, for every kind of job; some of it does not belong there. */
static void
play_session(int fd)
{
	struct r_meta meta = {.size = 5, .length = 5};
	struct r_entry entry = {.size = 1};
	struct r_exit end = {.exit_code = 1};
	struct r_done done = {5};
	struct r_error error = {.status = 404};

	if (mood & 1)
		put(fd, RECORD_STARTED, NULL, 0);
	if (mood & 2)
		put(fd, RECORD_META, &meta, sizeof(meta));
	if (mood & 4)
		put(fd, RECORD_STDOUT, "he\xc3\xa9llo", 7);
	if (mood & 8)
		put(fd, RECORD_DATA, "hello", 5);
	if (mood & 16)
		put(fd, RECORD_ENTRY, &entry, sizeof(entry));
	if (mood & 32)
		put(fd, RECORD_EXIT, &end, sizeof(end));
	if (mood & 64)
		put(fd, RECORD_DONE, &done, sizeof(done));
	if (mood & 128)
		put(fd, RECORD_ERROR, &error, sizeof(error));
	close(fd);
}

static void
play_manager(struct chan *c, struct msg *m)
{
	struct m_reply reply = {.status = mood & 1 ? 200 : 404};
	struct m_sandbox sandbox = {.id = 1, .egress = mood >> 7}, labelled = sandbox;
	struct m_snapshot snapshot = {.id = 1};
	struct m_page_end page = {0};
	struct m_metric metric = {.metric = METRIC_engine_up, .value = {1}};
	struct m_health health = {.engine_up = mood & 1};
	int fd = msg_take_fd(m);

	switch (m->type) {
	case MSG_AUTH:
		reply.status = mood == 255 ? 401 : 200;
		break;
	case MSG_ASK_HEALTH:
		send_HEALTH(c, m->id, &health, NULL, 0, -1);
		return;
	case MSG_GET:
	case MSG_FORK:
	case MSG_CREATE:
		if (fd != -1)
			close(fd);
		if (mood & 2)
			break;
		labelled.labels_len = 4;
		send_SANDBOX(c, m->id, &labelled, "image\0a\0b\0a.example", 19, -1);
		return;
	case MSG_LIST:
		send_SANDBOX(c, m->id, &sandbox, "image", 6, -1);
		send_PAGE_END(c, m->id, &page, NULL, 0, -1);
		return;
	case MSG_SNAPSHOTS:
		send_SNAPSHOT(c, m->id, &snapshot, "image\0name", 10, -1);
		send_PAGE_END(c, m->id, &page, NULL, 0, -1);
		return;
	case MSG_METRICS:
		send_METRIC(c, m->id, &metric, NULL, 0, -1);
		break;
	default:
		if (fd != -1)
			play_session(fd);
	}
	send_REPLY(c, m->id, &reply, "text", 4, -1);
}

static void
play_parent(struct chan *c, struct msg *m)
{
	const struct m_figures figures = {0};

	(void)c;
	(void)m;
	metrics_figures(&figures);
}

static void
never(struct chan *c)
{
	(void)c;
	abort();
}

static void
init(void)
{
	socklen_t len = sizeof(address);
	int fd, pair[2];

	signal(SIGPIPE, SIG_IGN);
	log_init("fuzz", LOG_LEVEL_ERROR);
	config.num[CFG_DEFAULT_EXEC_TIMEOUT_SECONDS] = 60000000000;
	config.num[CFG_MAX_EXEC_TIMEOUT_SECONDS] = 3600000000000;
	config.num[CFG_MAX_EXEC_OUTPUT_BYTES] = config.num[CFG_MAX_FILE_BYTES] = 1024;
	config.num[CFG_MAX_SNAPSHOT_BYTES] = 1024;
	config.num[CFG_DOCS] = 1;
	apid.config = &config;
	apid.browser.hosts = "a";
	apid.browser.origins = "https://page.example";
	apid.conns_max = 64;
	apid.nofile = 1024;
	peer_trust_init(&apid.trust, "127.0.0.1");
	places_init(0, &apid.trust);
	apid.browser.loopback = 1;
	apid.base = event_base_new();
	address.sin_family = AF_INET;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if ((fd = socket(AF_INET, SOCK_STREAM, 0)) == -1 ||
	    bind(fd, (struct sockaddr *)&address, sizeof(address)) == -1 || listen(fd, 16) == -1 ||
	    getsockname(fd, (struct sockaddr *)&address, &len) == -1 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == -1)
		abort();
	gate_init(apid.base, fd);
	gate_open();
	managerd_init(apid.base, pair[0], abort);
	manager = chan_event_new(
	    apid.base, pair[1], &apid_managerd_proto, MANAGERD, APID, play_manager, never, NULL);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == -1)
		abort();
	apid.parent = chan_event_new(
	    apid.base, pair[0], &parent_apid_proto, CHILD, PARENT, play_manager, never, NULL);
	parent = chan_event_new(
	    apid.base, pair[1], &parent_apid_proto, PARENT, CHILD, play_parent, never, NULL);
}

static void
run_loop(int rounds)
{
	while (rounds-- > 0)
		event_base_loop(apid.base, EVLOOP_NONBLOCK);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct linger at_once = {1, 0};
	char answer[4096];
	size_t cut;
	int s, i;

	if (n < 2)
		return 0;
	if (apid.base == NULL)
		init();
	mood = data[0];
	cut = (n - 2) * data[1] / 255;
	data += 2;
	n -= 2;
	if ((s = socket(AF_INET, SOCK_STREAM, 0)) == -1 ||
	    connect(s, (struct sockaddr *)&address, sizeof(address)) == -1)
		abort();
	run_loop(2);
	send(s, data, cut, MSG_DONTWAIT | MSG_NOSIGNAL);
	run_loop(6);
	send(s, data + cut, n - cut, MSG_DONTWAIT | MSG_NOSIGNAL);
	run_loop(8);
	if (recv(s, answer, sizeof(answer), MSG_DONTWAIT) >= 7 && memcmp(answer, "HTTP/1.", 7) != 0)
		abort();
	if (mood & 4) {
		shutdown(s, SHUT_WR);
		run_loop(4);
	}
	setsockopt(s, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)); /* no TIME_WAIT */
	close(s);
	run_loop(4);
	/* A reset takes its time on a busy machine. */
	for (i = 0; gate_connections() > 4 && i < 1000; i++) {
		usleep(1000);
		run_loop(4);
	}
	if (gate_connections() > 4)
		abort(); /* connections are left behind */
	return 0;
}
