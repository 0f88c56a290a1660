/* Asking keyd (keyd.h): one question at a time, and its answer is waited for. */
#include "apid/keyd.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>

#include "common/chan_event.h"
#include "common/log.h"
#include "proto/apid_keyd.h"

#define PATIENCE_MS 2000

static struct chan *keyd;
static uint64_t id;
static void (*when_gone)(void);

/* The answer that is waited for: 0: nobody waits. */
static struct {
	uint32_t type;
	uint64_t id;
	int done;
	uint32_t status; /* enum key_status */
	uint8_t *out;
	size_t size, n;
} wait;

static void
on_message(struct chan *c, struct msg *m)
{
	(void)c;
	if (wait.type == 0 || m->type != wait.type || m->id != wait.id)
		fatalx("keyd answers what was not asked");
	wait.type = 0;
	wait.done = 1;
	wait.status = ((const struct m_k_answer *)m->payload)->status;
	if (wait.status != KEY_OK)
		return;
	if (m->tail_len == 0 || m->tail_len > wait.size)
		fatalx("keyd: an answer of %zu bytes", m->tail_len);
	memcpy(wait.out, m->tail, m->tail_len);
	wait.n = m->tail_len;
}

static void
on_gone(struct chan *c)
{
	(void)c;
	/* The parent says why. */
	log_debug("keyd is gone, so am I");
	wait.type = 0;
	chan_free(keyd);
	keyd = NULL;
	when_gone();
}

void
keyd_init(struct event_base *base, int fd, void (*gone)(void))
{
	when_gone = gone;
	keyd = chan_event_new(base, fd, &apid_keyd_proto, APID, KEYD, on_message, on_gone, NULL);
}

static long
now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Until the answer has come, or keyd has gone. */
static int
wait_for(uint32_t type, uint8_t *out, size_t size)
{
	long end = now_ms() + PATIENCE_MS, left;

	wait.type = type;
	wait.id = id;
	wait.done = 0;
	wait.out = out;
	wait.size = size;
	wait.n = 0;
	while (keyd != NULL && !wait.done) {
		struct pollfd p = {.fd = chan_fd(keyd), .events = POLLIN};

		if (chan_queued(keyd) > 0)
			p.events |= POLLOUT;
		left = end - now_ms();
		if (left <= 0 || (poll(&p, 1, (int)left) == -1 && errno != EINTR))
			fatalx("keyd does not answer");
		if (p.revents & POLLOUT)
			chan_writable(keyd);
		if (p.revents & (POLLIN | POLLHUP | POLLERR))
			chan_read_one(keyd);
	}
	return wait.done && wait.status == KEY_OK ? (int)wait.n : -1;
}

int
keyd_public(uint32_t generation, uint32_t index, uint8_t *der, size_t size)
{
	struct m_k_key key = {.generation = generation, .index = index};

	if (keyd == NULL)
		return -1;
	send_K_PUBLIC(keyd, ++id, &key, NULL, 0, -1);
	return wait_for(MSG_K_PUBLIC_IS, der, size);
}

int
keyd_sign(uint32_t generation, uint32_t index, uint16_t scheme, const uint8_t *bytes, size_t n,
    uint8_t *signature, size_t size)
{
	struct m_k_sign sign = {.generation = generation, .index = index, .scheme = scheme};

	if (keyd == NULL || n > KEY_INPUT_MAX)
		return -1;
	send_K_SIGN(keyd, ++id, &sign, bytes, n, -1);
	return wait_for(MSG_K_SIGNED, signature, size);
}

void
keyd_use(uint32_t generation)
{
	if (keyd != NULL)
		send_K_USE(keyd, ++id, &(struct m_k_use){.generation = generation}, NULL, 0, -1);
}
