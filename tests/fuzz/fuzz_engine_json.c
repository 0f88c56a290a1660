/* The engine as an attacker: whatever it answers, step by step, every request of managerd gets
 * exactly one answer, and nothing stays behind. An input is a verb, then answers: a byte that picks
 * the status, and JSON up to a NUL. */
// link: dockerd-proxy/engine.o dockerd-proxy/owned.o dockerd-proxy/container.o
// link: dockerd-proxy/image.o dockerd-proxy/body.o dockerd-proxy/embed.o dockerd-proxy/member.o
// link: dockerd-proxy/attach.o dockerd-proxy/head.o common/image_ref.o common/egress.o
// link: common/egress_list.o common/egress_range.o -ljansson
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <event2/event.h>

#include "dockerd-proxy/proxy.h"

struct proxy proxy;
static struct uhttp_call waiting[8];
static size_t nwaiting;
static int theirs;

void
uhttp_call(const struct uhttp_call *call, const char *path)
{
	(void)path;
	if (nwaiting == sizeof(waiting) / sizeof(waiting[0]))
		abort();
	waiting[nwaiting++] = *call;
}

char *
uhttp_escape(const char *text)
{
	return strdup(text);
}

void
reply_failed(uint64_t id, enum d_failure why, const char *image)
{
	struct m_d_failed m = {.why = why};

	(void)image;
	send_D_FAILED(proxy.manager, id, &m, NULL, 0, -1);
}

enum d_failure
failure(const char *what, int status, json_t *answer)
{
	(void)what;
	text_at(answer, "message");
	return status == 0 ? FAIL_UNREACHABLE : FAIL_ENGINE;
}

static void
setup(void)
{
	static struct config config;
	int pair[2];

	if (proxy.base != NULL)
		return;
	proxy.base = event_base_new();
	proxy.config = &config;
	for (int i = 0; i < CONFIG_KEYS; i++)
		config.str[i] = (char *)"";
	config.str[CFG_ALLOWED_IMAGES] = (char *)"*";
	config.str[CFG_NETWORK_NAME] = (char *)"net";
	config.num[CFG_MAX_SANDBOXES] = 4;
	config.num[CFG_MAX_MEMORY_MB] = config.num[CFG_MAX_PIDS_LIMIT] = 4096;
	config.num[CFG_MAX_CPUS] = proxy.nano_cpus = 4000000000;
	config.num[CFG_ALLOW_NETWORK] = 1;
	strcpy(proxy.instance, "0b5a7a52-2f0c-4d0e-9c1e-6a6f3a1b2c3d");
	strcpy(proxy.arch, "amd64");
	proxy.up = 1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) != 0)
		abort();
	theirs = pair[1];
	proxy.manager =
	    chan_new(pair[0], &managerd_dockerd_proto, DOCKERD_PROXY, MANAGERD, NULL, NULL, NULL);
}

/* How many answers with this id came. */
static int
answers(uint64_t id)
{
	char buf[2048];
	struct msg_header h;
	int n = 0;

	while (recv(theirs, buf, sizeof(buf), MSG_DONTWAIT) >= (ssize_t)sizeof(h)) {
		memcpy(&h, buf, sizeof(h));
		n += h.id == id && h.type != MSG_D_ITEM;
	}
	return n;
}

static void
on_listed(uint64_t id, int status)
{
	if (status == 200)
		send_D_LIST_END(proxy.manager, id, &(struct m_d_none){0}, NULL, 0, -1);
	else
		reply_failed(id, FAIL_ENGINE, NULL);
}

/* Answers what waits until nothing does; when the input ends, with no answer at all. */
static void
run(const uint8_t **data, size_t *size)
{
	static const int statuses[] = {0, 200, 201, 204, 304, 400, 404, 500, 101};

	for (int n = 0; nwaiting > 0; n++) {
		struct uhttp_call call = waiting[0];
		size_t len = *size > 1 ? strnlen((const char *)*data + 1, *size - 1) : 0;
		int status = *size > 0 && n < 64 ? statuses[**data % 9] : 0;
		char *text = strndup(*size > 1 ? (const char *)*data + 1 : "", len);
		size_t used = *size > len + 2 ? len + 2 : *size;
		*data += used;
		*size -= used;
		memmove(waiting, waiting + 1, --nwaiting * sizeof(waiting[0]));
		if (call.line != NULL)
			call.line(call.arg, text, len);
		call.done(call.arg, status, text, len);
		free(text);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct m_d_create create = {.sandbox = 7, .generation = 1, .memory_mb = 512, .network = 1};
	struct m_d_prepare prepare = {.who = 1};
	struct m_d_destroy destroy = {.sandbox = 7, .generation = 1};
	struct owned *o;
	const uint8_t *rest = data;
	uint8_t verb = size > 0 ? data[0] : 0;

	setup();
	if (size > 0)
		rest++, size--;
	o = owned_new("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 5, 1, 0);
	create.network = verb & 1;
	prepare.local = verb >> 5 & 1;
	create.keep_volume = destroy.keep_volume = (verb >> 1) & 1;
	switch (verb >> 2 & 7) {
	case 0:
		owned_list(verb & 1, 9, on_listed);
		break;
	case 1:
		image_prepare(9, &prepare, "python:3", 8);
		break;
	case 2:
		container_create(9, &create, "example.com", create.network ? 0 : 11);
		break;
	case 3:
		container_destroy(9, NULL, &destroy);
		break;
	case 4:
		container_inspect(9, o->id);
		break;
	default:
		attach_start(9, o);
	}
	run(&rest, &size);
	if (answers(9) != 1)
		abort();
	/* All that is known goes, as managerd would have it. */
	for (size_t i = 0;
	     i < 64 &&
	     (o = owned_find("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
	     i++)
		owned_forget(o);
	while ((o = owned_named(7, 1, 0)) != NULL)
		owned_forget(o);
	return 0;
}
