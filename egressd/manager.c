/* managerd's messages. managerd is one of us: nonsense is fatal. */
#include <stdlib.h>

#include "common/log.h"
#include "egressd/egressd.h"
#include "proto/managerd_egressd.h"

#define HANDLER_MANAGERD(name, pay) CHAN_HANDLER(name, pay)
#define HANDLER_EGRESSD(name, pay)
MANAGERD_EGRESSD(CHAN_X_HANDLER)

#define CASE_MANAGERD(name, pay) CHAN_CASE(name, pay)
#define CASE_EGRESSD(name, pay)

void
manager_message(struct chan *c, struct msg *m)
{
	switch (m->type) {
		MANAGERD_EGRESSD(CHAN_X_CASE)
	}
}

void
manager_gone(struct chan *c)
{
	(void)c;
	exit(0);
}

static void
on_E_DIAL(struct chan *c, const struct m_e_dial *p, struct msg *m)
{
	static const char why[] = "not in the allowlist";

	(void)p;
	send_E_DIALED(
	    c, m->id, &(struct m_e_dialed){.verdict = DIAL_REFUSED}, why, sizeof(why) - 1, -1);
	send_E_DIAL_END(
	    c, m->id, &(struct m_e_dial_end){.verdict = DIAL_REFUSED}, why, sizeof(why) - 1, -1);
}

static void
on_E_FORGET(struct chan *c, const struct m_e_forget *p, struct msg *m)
{
	(void)c;
	(void)p;
	(void)m;
}
