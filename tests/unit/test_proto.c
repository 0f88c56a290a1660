/*
 * Every message of every table in proto/: at its smallest and its largest it arrives; one byte
 * less, one byte more, the other sender, a wrong number of descriptors or a type of another channel
 * ends the receiver.
 */
#include "tests/unit/forked.h"

#include <fcntl.h>
#include <sys/socket.h>

#include "common/chan.h"
#include "proto/apid_keyd.h"
#include "proto/apid_managerd.h"
#include "proto/managerd_dockerd.h"
#include "proto/managerd_egressd.h"
#include "proto/managerd_keyd.h"
#include "proto/managerd_sessiond.h"
#include "proto/parent.h"

static const struct {
	const struct chan_proto *proto;
	enum peer a, b;
} channels[] = {
    {&apid_managerd_proto, APID, MANAGERD},
    {&apid_keyd_proto, APID, KEYD},
    {&managerd_dockerd_proto, MANAGERD, DOCKERD_PROXY},
    {&managerd_egressd_proto, MANAGERD, EGRESSD},
    {&managerd_keyd_proto, MANAGERD, KEYD},
    {&managerd_sessiond_proto, MANAGERD, SESSIOND},
    {&parent_child_proto, PARENT, CHILD},
    {&parent_managerd_proto, PARENT, CHILD},
    {&parent_egressd_proto, PARENT, CHILD},
    {&parent_keyd_proto, PARENT, CHILD},
    {&parent_apid_proto, PARENT, CHILD},
};
#define CHANNELS (sizeof(channels) / sizeof(channels[0]))

/* How a program handles one direction of a table: this compiles only if every message of apid has
 * its handler. */
static uint32_t handled;

#define CASE_APID(name, pay) CHAN_CASE(name, pay)
#define CASE_MANAGERD(name, pay)
#define HANDLER_APID(name, pay) CHAN_HANDLER(name, pay)
#define HANDLER_MANAGERD(name, pay)
APID_MANAGERD(CHAN_X_HANDLER)

#define BODY_APID(name, pay)                                               \
	static void on_##name(struct chan *c, const pay *p, struct msg *m) \
	{                                                                  \
		(void)c;                                                   \
		assert_ptr_equal(p, m->payload);                           \
		handled = MSG_##name;                                      \
	}
#define BODY_MANAGERD(name, pay)
#define X_BODY(from, name, pay, tl, fdr) BODY_##from(name, pay)
APID_MANAGERD(X_BODY)

static void
dispatch(struct chan *c, struct msg *m)
{
	switch (m->type) {
		APID_MANAGERD(CHAN_X_CASE)
	}
}

static void
a_message_reaches_its_own_handler(void **state)
{
	static uint64_t payload[1024];
	size_t i;

	(void)state;
	for (i = 0; i < apid_managerd_proto.nspecs; i++) {
		struct msg m = {.type = apid_managerd_specs[i].type, .payload = payload, .fd = -1};

		if (apid_managerd_specs[i].from != APID)
			continue;
		handled = 0;
		dispatch(NULL, &m);
		assert_int_equal(handled, m.type);
	}
}

static const struct chan_proto *proto;
static enum peer from, to;
static const struct msg_spec *spec;
static size_t got_tail, got;

static void
on_message(struct chan *c, struct msg *m)
{
	(void)c;
	assert_int_equal(m->type, spec->type);
	got_tail = m->tail_len;
	got++;
}

/* Sends body bytes of the current message from one end; the other end, which takes the sender for
 * `as`, reads. */
struct attempt {
	size_t body;
	int nfds;
	uint32_t type;
	enum peer as;
};

static void
send_attempt(void *arg)
{
	static uint8_t bytes[MSG_MAX + 64];
	const struct attempt *a = arg;
	struct msg_header h = {a->type, (uint32_t)(sizeof(h) + a->body), 1};
	struct iovec iov[] = {{&h, sizeof(h)}, {bytes, a->body}};
	int fds[2] = {STDIN_FILENO, STDIN_FILENO}, pair[2];
	char space[CMSG_SPACE(sizeof(fds))] = {0};
	struct msghdr mh = {.msg_iov = iov, .msg_iovlen = 2};
	struct chan *receiver;
	struct cmsghdr *cm;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	receiver =
	    chan_new(pair[1], proto, a->as == from ? to : from, a->as, on_message, NULL, NULL);
	if (a->nfds > 0) {
		mh.msg_control = space;
		mh.msg_controllen = CMSG_SPACE((size_t)a->nfds * sizeof(int));
		cm = CMSG_FIRSTHDR(&mh);
		cm->cmsg_level = SOL_SOCKET;
		cm->cmsg_type = SCM_RIGHTS;
		cm->cmsg_len = CMSG_LEN((size_t)a->nfds * sizeof(int));
		memcpy(CMSG_DATA(cm), fds, (size_t)a->nfds * sizeof(int));
	}
	assert_int_equal(sendmsg(pair[0], &mh, 0), h.len);
	close(pair[0]);
	chan_readable(receiver);
	chan_free(receiver);
}

static void
must_arrive(size_t tail, int nfds)
{
	struct attempt a = {spec->fixed + tail, nfds, spec->type, from};

	got = 0;
	send_attempt(&a);
	assert_int_equal(got, 1);
	assert_int_equal(got_tail, tail);
}

static void
must_be_fatal(struct attempt a, const char *reason)
{
	assert_fatal(send_attempt, &a, reason);
	assert_fatal(send_attempt, &a, proto->name);
}

static void
for_each_message(void (*check)(void))
{
	size_t i, k;

	for (i = 0; i < CHANNELS; i++)
		for (k = 0; k < channels[i].proto->nspecs; k++) {
			proto = channels[i].proto;
			spec = &proto->specs[k];
			from = spec->from;
			to = from == channels[i].a ? channels[i].b : channels[i].a;
			assert_true(from == channels[i].a || from == channels[i].b);
			check();
		}
}

static void
check_arrives(void)
{
	int nfds = spec->fd == FD_MUST;

	must_arrive(0, nfds);
	must_arrive(spec->tail, nfds);
	if (spec->fd == FD_MAY)
		must_arrive(spec->tail, 1);
}

static void
every_message_arrives_at_its_smallest_and_largest(void **state)
{
	(void)state;
	for_each_message(check_arrives);
}

static void
check_sizes(void)
{
	int nfds = spec->fd == FD_MUST;

	must_be_fatal((struct attempt){spec->fixed - 1, nfds, spec->type, from}, "too short");
	must_be_fatal((struct attempt){0, nfds, spec->type, from}, "too short");
	if (sizeof(struct msg_header) + spec->fixed + spec->tail < MSG_MAX)
		must_be_fatal(
		    (struct attempt){spec->fixed + spec->tail + 1, nfds, spec->type, from},
		    "too long");
}

static void
every_message_truncated_or_oversized_is_fatal(void **state)
{
	(void)state;
	for_each_message(check_sizes);
}

static void
check_descriptors(void)
{
	if (spec->fd != FD_NONE)
		must_be_fatal(
		    (struct attempt){spec->fixed, 2, spec->type, from}, "more than one descriptor");
	if (spec->fd == FD_NONE)
		must_be_fatal((struct attempt){spec->fixed, 1, spec->type, from},
		    "a descriptor that it must not carry");
	if (spec->fd == FD_MUST)
		must_be_fatal(
		    (struct attempt){spec->fixed, 0, spec->type, from}, "without its descriptor");
}

static void
every_message_with_a_wrong_number_of_descriptors_is_fatal(void **state)
{
	(void)state;
	for_each_message(check_descriptors);
}

static void
check_sender(void)
{
	must_be_fatal((struct attempt){spec->fixed, spec->fd == FD_MUST, spec->type, to},
	    "not for this sender to say");
}

static void
every_message_from_the_other_side_is_fatal(void **state)
{
	(void)state;
	for_each_message(check_sender);
}

static int
is_parents(size_t channel)
{
	return channels[channel].a == PARENT;
}

static int
is_common(uint32_t type)
{
	return type > PARENT_CHILD_BASE && type <= MSG_P_STATE;
}

static void
a_message_of_another_channel_is_unknown(void **state)
{
	size_t i, k, n;

	(void)state;
	for (i = 0; i < CHANNELS; i++)
		for (k = 0; k < CHANNELS; k++)
			for (n = 0; n < channels[k].proto->nspecs; n++) {
				const struct msg_spec *s = &channels[k].proto->specs[n];

				/* All channels of the parent have what is common. */
				if (i == k || (is_parents(i) && is_common(s->type)))
					continue;
				assert_string_equal(chan_check(channels[i].proto, s->from, s->type,
							s->fixed, s->fd == FD_MUST, NULL),
				    "unknown type");
			}
}

static void
a_session_cannot_be_asked_for_on_a_common_channel(void **state)
{
	(void)state;
	assert_string_equal(chan_check(&parent_child_proto, CHILD, MSG_P_SESSION_START,
				sizeof(struct m_session), 0, NULL),
	    "unknown type");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_message_reaches_its_own_handler),
	    cmocka_unit_test(every_message_arrives_at_its_smallest_and_largest),
	    cmocka_unit_test(every_message_truncated_or_oversized_is_fatal),
	    cmocka_unit_test(every_message_with_a_wrong_number_of_descriptors_is_fatal),
	    cmocka_unit_test(every_message_from_the_other_side_is_fatal),
	    cmocka_unit_test(a_message_of_another_channel_is_unknown),
	    cmocka_unit_test(a_session_cannot_be_asked_for_on_a_common_channel),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
