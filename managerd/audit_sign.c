/* Checkpoints of the audit log, see audit_sign.h. */
#include <bsd/string.h>
#include <event2/event.h>
#include <jansson.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "common/chan_event.h"
#include "common/ids.h"
#include "common/log.h"
#include "managerd/audit_file.h"
#include "managerd/audit_log.h"
#include "managerd/audit_sign.h"
#include "proto/managerd_keyd.h"
#include "proto/parent.h"

#define START_US 60000000
#define SECOND_US 1000000

static struct chan *keyd;
static struct m_k_last last;
static int last_known, ending;
static void (*leave)(void);
static const char *instance;
static int64_t interval_us, due_us;
static uint64_t count, id;
static uint64_t covered; /* no line behind this one needs a checkpoint */
static uint64_t signed_upto;
static struct {
	uint64_t seq; /* 0: nothing is asked */
	char head[AUDIT_HASH_TEXT];
} asked;

static void
write_checkpoint(const struct m_k_checkpointed *a)
{
	char at[TIME_TEXT_MAX], key[65], signature[129];
	uint64_t seq;

	hex_encode(a->key, sizeof(a->key), key);
	hex_encode(a->signature, sizeof(a->signature), signature);
	seq = audit_log_put(json_pack("{s:s, s:s, s:I, s:s, s:s, s:s, s:s}", "action", "checkpoint",
	    "instance", instance, "upto", (json_int_t)asked.seq, "head", asked.head, "at",
	    time_text(at, a->at_us), "key", key, "signature", signature));
	covered = seq == asked.seq + 1 ? seq : asked.seq;
	count++;
}

static void
on_checkpointed(const struct m_k_checkpointed *a)
{
	switch (a->status) {
	case CHECKPOINT_OK:
		signed_upto = asked.seq;
		write_checkpoint(a);
		break;
	case CHECKPOINT_BACK:
		fatalx("keyd has signed a line of the audit log that is not in it");
	default:
		log_warnx("keyd could not sign the audit log");
	}
	asked.seq = 0;
}

static void
message(struct chan *c, struct msg *m)
{
	(void)c;
	if (m->id != id)
		fatalx("keyd answers what nobody asked");
	if (m->type == MSG_K_LAST) {
		last = *(const struct m_k_last *)m->payload;
		last_known = 1;
	} else if (asked.seq != 0)
		on_checkpointed(m->payload);
	else
		fatalx("keyd answers what nobody asked");
}

void
audit_sign_on_gone(void (*f)(void))
{
	leave = f;
}

static void
gone(struct chan *c)
{
	keyd = NULL;
	if (!ending) {
		log_debug("keyd is gone, so am I");
		if (leave != NULL)
			leave();
		exit(0);
	}
	chan_free(c);
}

/* Until keyd has answered, or so long. */
static void
wait_while(int (*waiting)(void), int64_t us)
{
	int64_t end = time_boot_us() + us, left;
	struct pollfd p = {.events = POLLIN};

	while (keyd != NULL && waiting() && (left = end - time_boot_us()) > 0) {
		p.fd = chan_fd(keyd);
		if (poll(&p, 1, (int)(left / 1000) + 1) == 1)
			chan_read_one(keyd);
	}
}

static int
waits_for_last(void)
{
	return !last_known;
}

static int
waits_for_checkpoint(void)
{
	return asked.seq != 0;
}

static void
ask(void)
{
	struct m_k_checkpoint m = {.seq = audit_file.seq};

	if (keyd == NULL || asked.seq != 0 || audit_file.seq == 0 || audit_log_sync() == -1)
		return;
	if (hex_decode(audit_file.head, m.head, sizeof(m.head)) == -1)
		fatalx("audit: a hash that is none");
	strlcpy(m.instance, instance, sizeof(m.instance));
	asked.seq = m.seq;
	memcpy(asked.head, audit_file.head, sizeof(asked.head));
	due_us = time_boot_us() + interval_us;
	send_K_CHECKPOINT(keyd, ++id, &m, NULL, 0, -1);
}

void
audit_sign_tick(void)
{
	if (audit_file.seq > covered && time_boot_us() >= due_us)
		ask();
}

void
audit_sign_soon(void)
{
	due_us = 0;
}

void
audit_sign_now(int64_t us)
{
	int64_t end = time_boot_us() + us;

	ending = 1;
	wait_while(waits_for_checkpoint, us);
	if (audit_file.seq > covered)
		ask();
	wait_while(waits_for_checkpoint, end - time_boot_us());
	audit_log_sync();
	ending = 0;
}

void
audit_sign_lost(uint64_t n)
{
	const struct m_k_lost m = {.lost = n};

	if (keyd != NULL)
		send_K_LOST(keyd, 0, &m, NULL, 0, -1);
}

int
audit_sign_has(uint64_t seq)
{
	return instance == NULL || signed_upto >= seq;
}

uint64_t
audit_sign_count(void)
{
	return count;
}

/* What was signed must be there. */
static void
compare(void)
{
	char want[AUDIT_HASH_TEXT], head[AUDIT_HASH_TEXT];

	if (last.seq == 0)
		return;
	if (audit_file.seq < last.seq)
		fatal_config("the audit log ends at line %llu, but was signed up to line %llu: its "
			     "end is missing; docs/AUDIT-LOG.md says what to do",
		    (unsigned long long)audit_file.seq, (unsigned long long)last.seq);
	hex_encode(last.head, sizeof(last.head), want);
	if (audit_file_find(last.seq, head) == -1 || strcmp(head, want) != 0)
		fatal_config("line %llu of the audit log is not the one that was signed: see "
			     "\"agent-sandbox audit verify\"; docs/AUDIT-LOG.md says what to do",
		    (unsigned long long)last.seq);
}

uint64_t
audit_sign_open(const struct audit_rules *rules, struct event_base *base)
{
	const struct m_k_lost none = {0};
	char key[65];

	if (rules->keyd_fd == 0)
		return 0;
	instance = rules->instance;
	interval_us = rules->checkpoint_seconds * SECOND_US;
	keyd = chan_event_new(
	    base, rules->keyd_fd, &managerd_keyd_proto, MANAGERD, KEYD, message, gone, NULL);
	send_K_ASK_LAST(keyd, ++id, &none, NULL, 0, -1);
	wait_while(waits_for_last, START_US);
	if (!last_known)
		fatalx("keyd does not say what it has signed");
	compare();
	signed_upto = last.seq;
	hex_encode(last.key, sizeof(last.key), key);
	/* A new key, though there is a log already, is seen. */
	if (last.seq == 0)
		audit_log_put(json_pack("{s:s, s:s}", "action", "signing_key", "key", key));
	return last.lost;
}
