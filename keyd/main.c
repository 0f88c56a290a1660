/*
 * keyd holds the private keys of the server's certificates. apid, which speaks TLS, asks it to sign
 * what a handshake needs; it signs nothing else, so that whoever owns apid has no key, and no use
 * of one that outlasts that.
 */
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/chan_event.h"
#include "common/child.h"
#include "common/log.h"
#include "keyd/keyd.h"
#include "proto/parent.h"

#define SIGNATURES_A_SECOND 20000

static struct chan *parent;
static struct {
	int64_t second; /* of the clock */
	unsigned signatures, refusals;
	uint64_t refused; /* since the start */
} now;

static void
count_from_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	if (ts.tv_sec == now.second)
		return;
	if (now.refusals > 1)
		log_warnx("refused %u more signatures in a second; %llu since the start",
		    now.refusals - 1, (unsigned long long)now.refused);
	now.second = ts.tv_sec;
	now.signatures = now.refusals = 0;
}

static void
note_refusal(const struct m_k_sign *ask, size_t n)
{
	now.refused++;
	if (now.refusals++ == 0)
		log_warnx("apid asks for a signature that no handshake needs: %zu bytes, key %u, "
			  "scheme 0x%04x",
		    n, ask->index, ask->scheme);
}

#define CASE_APID(name, pay) CHAN_CASE(name, pay)
#define CASE_KEYD(name, pay)
#define HANDLER_APID(name, pay) CHAN_HANDLER(name, pay)
#define HANDLER_KEYD(name, pay)
APID_KEYD(CHAN_X_HANDLER)

static void
on_K_PUBLIC(struct chan *c, const struct m_k_key *p, struct msg *m)
{
	uint8_t out[KEY_OUTPUT_MAX];
	size_t n = 0;
	struct m_k_answer a = {.status = keys_public(p->generation, p->index, out, &n)};

	send_K_PUBLIC_IS(c, m->id, &a, out, a.status == KEY_OK ? n : 0, -1);
}

static void
on_K_SIGN(struct chan *c, const struct m_k_sign *p, struct msg *m)
{
	uint8_t out[KEY_OUTPUT_MAX];
	size_t n = 0;
	struct m_k_answer a = {.status = KEY_BUSY};

	count_from_now();
	if (now.signatures++ < SIGNATURES_A_SECOND)
		a.status = keys_sign(p, (const uint8_t *)m->tail, m->tail_len, out, &n);
	if (a.status == KEY_REFUSED)
		note_refusal(p, m->tail_len);
	send_K_SIGNED(c, m->id, &a, out, a.status == KEY_OK ? n : 0, -1);
}

static void
on_K_USE(struct chan *c, const struct m_k_use *p, struct msg *m)
{
	(void)c;
	(void)m;
	keys_forget_before(p->generation);
}

static void
apid_message(struct chan *c, struct msg *m)
{
	switch (m->type) {
		APID_KEYD(CHAN_X_CASE)
	}
}

static void
apid_gone(struct chan *c)
{
	(void)c;
	exit(0);
}

/* The last file of a generation brings the answer: whether all are good, else which is not. */
static void
on_keyfile(const struct m_keyfile *p, struct msg *m)
{
	static struct m_tls_done done;
	static const char *why;
	const char *wrong;

	if (p->generation == 0 || p->count == 0 || p->count > KEYS_AT_ONCE || p->index >= p->count)
		fatalx("parent: a key out of bounds");
	if (p->index == 0) {
		done = (struct m_tls_done){.generation = p->generation, .index = 255};
		why = "";
	}
	wrong = keys_read(p->generation, p->index, m->fd);
	if (wrong != NULL && !done.failed) {
		done.failed = 1;
		done.index = (uint8_t)p->index;
		why = wrong;
	}
	if (p->index + 1 < p->count)
		return;
	if (done.failed)
		keys_forget(p->generation);
	send_P_KEYED(parent, 0, &done, why, strlen(why), -1);
}

static void
parent_message(struct chan *c, struct msg *m)
{
	(void)c;
	if (m->type == MSG_P_KEYFILE)
		on_keyfile(m->payload, m);
	else if (m->type == MSG_P_FORGET)
		keys_forget(((const struct m_keyfile *)m->payload)->generation);
	else
		fatalx("the parent sent a setup message again");
}

int
main(void)
{
	static struct child child;
	struct event_base *base;
	struct chan *apid;

	child_setup(&child, "keyd", 1);
	keys_init();
	if ((base = event_base_new()) == NULL)
		fatalx("event base");
	child_confine(&child, &keyd_confine);
	parent = child_run(&child, base, &parent_keyd_proto, parent_message);
	apid = chan_event_new(
	    base, FD_PEER, &apid_keyd_proto, KEYD, APID, apid_message, apid_gone, NULL);
	chan_event_hold(apid);
	child_ready(&child, parent);
	if (event_base_dispatch(base) == -1)
		fatalx("event loop");
	return 0;
}
