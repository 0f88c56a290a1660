/* What the parent says once apid runs: the files of TLS, at the start and at each reload. */
#include "apid/parent.h"

#include <string.h>

#include "apid/apid.h"
#include "apid/gate.h"
#include "apid/metrics.h"
#include "apid/tls.h"
#include "common/log.h"
#include "proto/parent.h"

static struct child *child;
static int is_ready;

#define CASE_PARENT(name, pay) CHAN_CASE(name, pay)
#define CASE_CHILD(name, pay)
#define HANDLER_PARENT(name, pay) CHAN_HANDLER(name, pay)
#define HANDLER_CHILD(name, pay)
PARENT_APID(CHAN_X_HANDLER)

static void
ready(struct chan *c)
{
	is_ready = 1;
	gate_open();
	child_ready(child, c);
}

static void
on_P_CERT(struct chan *c, const struct m_keyfile *p, struct msg *m)
{
	(void)c;
	tls_take_certificate(p->generation, p->index, msg_take_fd(m));
}

static void
on_P_CLIENT_CA(struct chan *c, const struct m_keyfile *p, struct msg *m)
{
	(void)c;
	tls_take_client_ca(p->generation, msg_take_fd(m));
}

static void
on_P_TLS(struct chan *c, const struct m_keyfile *p, struct msg *m)
{
	/* A copy: asking keyd reads another message. */
	struct m_tls_done done = {.generation = p->generation};
	uint32_t count = p->count;
	char why[TLS_TEXT_MAX];

	(void)m;
	done.failed = tls_use(done.generation, count, &done.index, why, sizeof(why)) == -1;
	send_P_TLS_DONE(c, 0, &done, why, strlen(why), -1);
	if (!done.failed && !is_ready)
		ready(c);
}

static void
on_P_METRICS(struct chan *c, const struct m_none *p, struct msg *m)
{
	(void)c;
	(void)p;
	gate_metrics_open(msg_take_fd(m));
}

static void
on_P_FIGURES(struct chan *c, const struct m_figures *p, struct msg *m)
{
	(void)c;
	(void)m;
	metrics_figures(p);
}

static void
on_message(struct chan *c, struct msg *m)
{
	switch (m->type) {
		PARENT_APID(CHAN_X_CASE)
	default:
		fatalx("parent: message 0x%04x after the setup", (unsigned)m->type);
	}
}

void
parent_init(struct child *self, int wait_for_tls)
{
	struct chan *c;

	child = self;
	c = apid.parent = child_run(child, apid.base, &parent_apid_proto, on_message);
	if (!wait_for_tls)
		ready(c);
}
