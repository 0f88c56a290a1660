/*
 * keyd holds the private keys of the server's certificates. apid, which speaks TLS, asks it to sign
 * what a handshake needs; it signs nothing else, so that whoever owns apid has no key, and no use
 * of one that outlasts that. With a key of its own it signs how far the audit log has come, which
 * managerd says: forward only.
 */
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/chan_event.h"
#include "common/child.h"
#include "common/log.h"
#include "keyd/audit.h"
#include "keyd/keyd.h"
#include "proto/parent.h"

#define SIGNATURES_A_SECOND 20000

static struct child child;
static struct event_base *base;
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

#define CASE_MANAGERD(name, pay) CHAN_CASE(name, pay)
#define HANDLER_MANAGERD(name, pay) CHAN_HANDLER(name, pay)
MANAGERD_KEYD(CHAN_X_HANDLER)

static void
on_K_ASK_LAST(struct chan *c, const struct m_k_lost *p, struct msg *m)
{
	struct m_k_last last;

	(void)p;
	audit_last(&last);
	send_K_LAST(c, m->id, &last, NULL, 0, -1);
}

static void
on_K_CHECKPOINT(struct chan *c, const struct m_k_checkpoint *p, struct msg *m)
{
	struct m_k_checkpointed a;

	audit_checkpoint(p, &a);
	send_K_CHECKPOINTED(c, m->id, &a, NULL, 0, -1);
}

static void
on_K_LOST(struct chan *c, const struct m_k_lost *p, struct msg *m)
{
	(void)c;
	(void)m;
	audit_lost(p->lost);
}

static void
managerd_message(struct chan *c, struct msg *m)
{
	switch (m->type) {
		MANAGERD_KEYD(CHAN_X_CASE)
	}
}

/* At an orderly end apid goes first, and managerd has the last lines signed then. */
static void
peer_gone(struct chan *c)
{
	static int gone;

	chan_free(c);
	if (++gone == 2)
		exit(0);
}

/* The state, then the public key's file: what comes from managerd waits in its channel until then.
 */
static void
on_audit(const struct m_audit_file *p, struct msg *m)
{
	static int files[2] = {-1, -1};
	struct chan *managerd;

	if (p->index > 1 || files[p->index] != -1)
		fatalx("parent: a file of the audit log out of order");
	files[p->index] = msg_take_fd(m);
	if (files[0] == -1 || files[1] == -1)
		return;
	audit_use(files[0], files[1]);
	managerd = chan_event_new(base, FD_SECOND, &managerd_keyd_proto, KEYD, MANAGERD,
	    managerd_message, peer_gone, NULL);
	chan_event_hold(managerd);
	child_ready(&child, parent);
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
	else if (m->type == MSG_P_AUDIT)
		on_audit(m->payload, m);
	else if (m->type == MSG_P_FORGET)
		keys_forget(((const struct m_keyfile *)m->payload)->generation);
	else
		fatalx("the parent sent a setup message again");
}

int
main(void)
{
	struct chan *apid;

	child_setup(&child, "keyd", 2);
	keys_init();
	audit_init();
	if ((base = event_base_new()) == NULL)
		fatalx("event base");
	child_confine(&child, &keyd_confine);
	parent = child_run(&child, base, &parent_keyd_proto, parent_message);
	apid = chan_event_new(
	    base, FD_PEER, &apid_keyd_proto, KEYD, APID, apid_message, peer_gone, NULL);
	chan_event_hold(apid);
	if (event_base_dispatch(base) == -1)
		fatalx("event loop");
	return 0;
}
