/* managerd's messages. managerd is one of us: nonsense is fatal. */
#include <stdlib.h>
#include <sys/socket.h>

#include "common/log.h"
#include "egressd/dial.h"
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

/* One end of a pair of sockets, and nothing that could be another program's. */
static int
is_stream(int fd)
{
	int domain, type;
	socklen_t len = sizeof(int);

	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 && domain == AF_UNIX &&
	       getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_STREAM;
}

/* Name and port are what somebody inside said, and may be anything; the list is managerd's. */
static void
on_E_DIAL(struct chan *c, const struct m_e_dial *p, struct msg *m)
{
	const char *list = m->tail + p->name_len;
	size_t len = m->tail_len - p->name_len;

	(void)c;
	if (p->name_len == 0 || p->name_len > DIAL_NAME_MAX || p->name_len > m->tail_len ||
	    p->how > DIAL_HTTP)
		fatalx("managerd: a dial that cannot be");
	if (!(len == 1 && list[0] == EGRESS_ANY[0]) && !egress_list_valid(list, len))
		fatalx("managerd: a dial with a malformed list");
	if (!is_stream(m->fd))
		fatalx("managerd: a dial whose descriptor is no stream socket");
	dial_begin(m->id, p, m->tail, list, len, msg_take_fd(m));
}

static void
on_E_FORGET(struct chan *c, const struct m_e_forget *p, struct msg *m)
{
	(void)c;
	(void)m;
	dial_forget(p->sandbox);
}
