/* For tests of the channel engine: a table of its own, and the two ends of a channel that uses it.
 */
#ifndef TESTS_UNIT_CHAN_KIT_H
#define TESTS_UNIT_CHAN_KIT_H

#include "tests/unit/forked.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <event2/event.h>

#include "common/chan.h"
#include "common/chan_event.h"

struct m_word {
	uint64_t n;
};

#define TABLE(X)                                                 \
	X(APID, ASK, struct m_word, 100, FD_NONE)                \
	X(APID, GIVE, struct m_word, 60000, FD_MUST)             \
	X(APID, OFFER, struct m_word, 8, FD_MAY)                 \
	X(APID, LARGE, struct m_word, MSG_MAX - 16 - 8, FD_NONE) \
	X(MANAGERD, ANSWER, struct m_word, 8, FD_NONE)           \
	X(MANAGERD, LENGTHY, struct m_word, 60000, FD_NONE)

enum { TABLE_BASE = 0x7000 - 1, TABLE(CHAN_X_ENUM) };
TABLE(CHAN_X_ASSERT)
TABLE(CHAN_X_SEND)
static const struct msg_spec specs[] = {TABLE(CHAN_X_SPEC)};
static const struct chan_proto proto = {"test", specs, sizeof(specs) / sizeof(specs[0])};

/* What the receiving end saw. */
struct seen {
	uint64_t next; /* the n that must come next */
	size_t messages;
	size_t fds;
	size_t gone;
	size_t breaches;
	const char *why;
	size_t tail_len;
	char last; /* of the tail */
	int nul_behind;
	int kept_fd;
	int free_in_handler, take;
	struct event_base *base;
};

static struct chan *sender, *receiver;
static int raw; /* the sender's socket, to send what chan_send() would not */
static struct seen seen;

static inline void
on_message(struct chan *c, struct msg *m)
{
	struct seen *s = chan_arg(c);
	const struct m_word *p = m->payload;

	if (p->n != s->next++ || m->id != p->n + 1)
		abort();
	s->messages++;
	s->fds += m->fd != -1;
	s->tail_len = m->tail_len;
	s->last = m->tail_len > 0 ? m->tail[m->tail_len - 1] : '\0';
	s->nul_behind = m->tail[m->tail_len] == '\0';
	if (s->take)
		s->kept_fd = msg_take_fd(m);
	else
		s->kept_fd = m->fd;
	if (s->free_in_handler) {
		if (c == receiver)
			receiver = NULL;
		chan_free(c);
	}
}

static inline void
on_gone(struct chan *c)
{
	struct seen *s = chan_arg(c);

	s->gone++;
	if (s->base != NULL)
		event_base_loopbreak(s->base);
}

static inline void
nobody_speaks(struct chan *c, struct msg *m)
{
	(void)c;
	(void)m;
	abort();
}

static inline int
setup(void **state)
{
	int s[2];

	(void)state;
	memset(&seen, 0, sizeof(seen));
	seen.kept_fd = -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s) == -1)
		return -1;
	raw = s[0];
	sender = chan_new(s[0], &proto, APID, MANAGERD, nobody_speaks, NULL, NULL);
	receiver = chan_new(s[1], &proto, MANAGERD, APID, on_message, on_gone, &seen);
	return sender != NULL && receiver != NULL ? 0 : -1;
}

static inline int
teardown(void **state)
{
	(void)state;
	chan_free(sender);
	chan_free(receiver);
	sender = receiver = NULL;
	return 0;
}

static inline void
ask(uint64_t n, const char *tail)
{
	send_ASK(sender, n + 1, &(struct m_word){n}, tail, strlen(tail), -1);
}

static inline int
is_open(int fd)
{
	return fcntl(fd, F_GETFD) != -1;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
