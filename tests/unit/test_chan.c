/* The channel engine: what is sent arrives once, whole and in order, with its descriptor; what
 * breaks the rules ends us. */
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
	X(MANAGERD, ANSWER, struct m_word, 8, FD_NONE)

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

static void
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
		chan_free(c);
		receiver = NULL;
	}
}

static void
on_gone(struct chan *c)
{
	struct seen *s = chan_arg(c);

	s->gone++;
	if (s->base != NULL)
		event_base_loopbreak(s->base);
}

static void
nobody_speaks(struct chan *c, struct msg *m)
{
	(void)c;
	(void)m;
	abort();
}

static int
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

static int
teardown(void **state)
{
	(void)state;
	chan_free(sender);
	chan_free(receiver);
	sender = receiver = NULL;
	return 0;
}

static void
ask(uint64_t n, const char *tail)
{
	send_ASK(sender, n + 1, &(struct m_word){n}, tail, strlen(tail), -1);
}

static int
is_open(int fd)
{
	return fcntl(fd, F_GETFD) != -1;
}

static void
a_message_arrives_whole(void **state)
{
	(void)state;
	ask(0, "hello!");
	chan_readable(receiver);
	assert_int_equal(seen.messages, 1);
	assert_int_equal(seen.tail_len, 6);
	assert_int_equal(seen.last, '!');
	assert_true(seen.nul_behind);
}

static void
the_largest_message_arrives(void **state)
{
	size_t len = MSG_MAX - 16 - 8;
	char *tail = malloc(len);

	(void)state;
	memset(tail, 'x', len);
	tail[len - 1] = 'z';
	send_LARGE(sender, 1, &(struct m_word){0}, tail, len, -1);
	chan_readable(receiver);
	assert_int_equal(seen.tail_len, len);
	assert_int_equal(seen.last, 'z');
	assert_true(seen.nul_behind);
	free(tail);
}

static void
a_descriptor_is_close_on_exec_and_the_senders_copy_is_closed(void **state)
{
	int p[2];

	(void)state;
	assert_int_equal(pipe(p), 0);
	seen.take = 1;
	send_GIVE(sender, 1, &(struct m_word){0}, NULL, 0, p[0]);
	assert_false(is_open(p[0]));
	chan_readable(receiver);
	assert_int_equal(seen.fds, 1);
	assert_true(fcntl(seen.kept_fd, F_GETFD) & FD_CLOEXEC);
	close(seen.kept_fd);
	close(p[1]);
}

static void
a_descriptor_that_nobody_takes_is_closed(void **state)
{
	int p[2];

	(void)state;
	assert_int_equal(pipe(p), 0);
	send_OFFER(sender, 1, &(struct m_word){0}, NULL, 0, p[0]);
	send_OFFER(sender, 2, &(struct m_word){1}, NULL, 0, -1);
	chan_readable(receiver);
	assert_int_equal(seen.messages, 2);
	assert_int_equal(seen.fds, 1);
	/* The pipe has lost its last reader. */
	assert_int_equal(write(p[1], "x", 1), -1);
	assert_int_equal(errno, EPIPE);
	close(p[1]);
}

static void
what_the_socket_does_not_take_waits_and_keeps_its_order(void **state)
{
	static char tail[60000];
	int p[2], i;

	(void)state;
	assert_int_equal(pipe(p), 0);
	for (i = 0; i < 200; i++)
		send_GIVE(sender, (uint64_t)i + 1, &(struct m_word){(uint64_t)i}, tail,
		    sizeof(tail), dup(p[0]));
	assert_in_range(chan_queued(sender), 100, 199);
	while (seen.messages < 200) {
		chan_readable(receiver);
		chan_writable(sender);
	}
	assert_int_equal(chan_queued(sender), 0);
	assert_int_equal(seen.fds, 200);
	close(p[0]);
	assert_int_equal(write(p[1], "x", 1), -1); /* no copy is left */
	close(p[1]);
}

static void
one_call_reads_a_bounded_number(void **state)
{
	uint64_t i;

	(void)state;
	for (i = 0; i < 100; i++)
		ask(i, "");
	chan_readable(receiver);
	assert_int_equal(seen.messages, 64);
	assert_int_equal(chan_read_one(receiver), 1);
	chan_readable(receiver);
	assert_int_equal(seen.messages, 100);
	assert_int_equal(chan_read_one(receiver), 0);
}

static void
a_peer_that_leaves_is_told_once_after_its_last_message(void **state)
{
	(void)state;
	ask(0, "");
	chan_free(sender);
	sender = NULL;
	chan_readable(receiver);
	chan_readable(receiver);
	assert_int_equal(seen.messages, 1);
	assert_int_equal(seen.gone, 1);
}

static void
a_peer_that_leaves_with_unread_messages_is_gone_too(void **state)
{
	(void)state;
	ask(0, "");
	send_ANSWER(receiver, 1, &(struct m_word){0}, NULL, 0, -1);
	chan_free(sender);
	sender = NULL;
	chan_readable(receiver);
	assert_int_equal(seen.messages, 1);
	assert_int_equal(seen.gone, 1);
}

static void
what_is_sent_to_nobody_is_dropped_with_its_descriptor(void **state)
{
	int p[2];

	(void)state;
	chan_free(receiver);
	receiver = NULL;
	assert_int_equal(pipe(p), 0);
	send_GIVE(sender, 1, &(struct m_word){0}, NULL, 0, p[0]);
	assert_false(is_open(p[0]));
	assert_int_equal(chan_queued(sender), 0);
	close(p[1]);
}

static void
a_channel_may_be_freed_in_its_handler(void **state)
{
	int p[2];

	(void)state;
	assert_int_equal(pipe(p), 0);
	seen.free_in_handler = 1;
	send_GIVE(sender, 1, &(struct m_word){0}, NULL, 0, p[0]);
	ask(1, "");
	chan_readable(receiver);
	assert_int_equal(seen.messages, 1);
	assert_null(receiver);
	assert_int_equal(write(p[1], "x", 1), -1);
	close(p[1]);
}

static void
freeing_closes_what_is_queued(void **state)
{
	static char tail[60000];
	int p[2], i;

	(void)state;
	assert_int_equal(pipe(p), 0);
	for (i = 0; i < 100; i++)
		send_GIVE(sender, 1, &(struct m_word){0}, tail, sizeof(tail), dup(p[0]));
	chan_free(sender);
	chan_free(receiver);
	sender = receiver = NULL;
	close(p[0]);
	assert_int_equal(write(p[1], "x", 1), -1);
	close(p[1]);
}

/* Too many descriptors in flight, which only a user who is not root can have. */
static void
too_many_descriptors_in_flight_only_wait(void *arg)
{
	struct rlimit few = {32, 32};
	int fd = open("/dev/null", O_RDONLY), i, waited = 0;

	(void)arg;
	if (setrlimit(RLIMIT_NOFILE, &few) == -1 || (geteuid() == 0 && setuid(65534) == -1))
		abort();
	for (i = 0; i < 45; i++) {
		send_OFFER(
		    sender, (uint64_t)i + 1, &(struct m_word){(uint64_t)i}, NULL, 0, dup(fd));
		waited |= chan_queued(sender) > 0;
	}
	while (seen.messages < 45) {
		chan_readable(receiver);
		chan_writable(sender);
	}
	if (!waited || seen.fds != 45)
		abort();
}

static void
descriptors_in_flight_beyond_the_limit_stay_queued(void **state)
{
	(void)state;
	assert_survives(too_many_descriptors_in_flight_only_wait, NULL);
}

static void
fills_the_queue(void *arg)
{
	static char tail[60000];

	(void)arg;
	for (;;)
		send_LARGE(sender, 1, &(struct m_word){0}, tail, sizeof(tail), -1);
}

static void
a_peer_that_never_reads_is_fatal_before_memory_is_full(void **state)
{
	(void)state;
	assert_fatal(fills_the_queue, NULL, "managerd does not read them");
}

/* A packet with any content and any number of descriptors (of /dev/null). */
struct packet {
	uint32_t type, len;
	size_t body;
	int nfds, nofile;
	const char *reason;
};

static void
sends_raw(void *arg)
{
	static uint8_t bytes[2 * MSG_MAX];
	const struct packet *p = arg;
	struct msg_header h = {p->type, p->len, 1};
	struct iovec iov[] = {{&h, sizeof(h)}, {bytes, p->body}};
	int fds[4];
	char space[CMSG_SPACE(sizeof(fds))] = {0};
	struct msghdr mh = {.msg_iov = iov, .msg_iovlen = 2};
	struct cmsghdr *cm;
	struct rlimit r = {(rlim_t)p->nofile, (rlim_t)p->nofile};
	int i, size = 4 * MSG_MAX;

	setsockopt(raw, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	for (i = 0; i < 4; i++)
		fds[i] = open("/dev/null", O_RDONLY);
	if (p->nfds > 0) {
		mh.msg_control = space;
		mh.msg_controllen = CMSG_SPACE((size_t)p->nfds * sizeof(int));
		cm = CMSG_FIRSTHDR(&mh);
		cm->cmsg_level = SOL_SOCKET;
		cm->cmsg_type = SCM_RIGHTS;
		cm->cmsg_len = CMSG_LEN((size_t)p->nfds * sizeof(int));
		memcpy(CMSG_DATA(cm), fds, (size_t)p->nfds * sizeof(int));
	}
	if (sendmsg(raw, &mh, 0) == -1)
		abort();
	if (p->nofile != 0 && setrlimit(RLIMIT_NOFILE, &r) == -1)
		abort();
	chan_readable(receiver);
}

static struct packet packets[] = {
    {MSG_ASK, 24, 8, 1, 0, "ASK (0x7000) from apid: a descriptor that it must not carry"},
    {MSG_GIVE, 24, 8, 0, 0, "GIVE (0x7001) from apid: without its descriptor"},
    {MSG_GIVE, 24, 8, 2, 0, "GIVE (0x7001) from apid: more than one descriptor"},
    {MSG_OFFER, 24, 8, 4, 0, "more than one descriptor"},
    {MSG_GIVE, 24, 8, 1, 6, "its descriptors did not fit here"},
    {MSG_ASK, 23, 7, 0, 0, "too short"},
    {MSG_ASK, 24, 7, 0, 0, "its length is not the packet's"},
    {MSG_ASK, 23, 8, 0, 0, "its length is not the packet's"},
    {MSG_ASK, 24 + 101, 8 + 101, 0, 0, "too long"},
    {MSG_LARGE, MSG_MAX + 1, MSG_MAX - 15, 0, 0, "over 64 KiB"},
    {MSG_LARGE, 2 * MSG_MAX, 2 * MSG_MAX - 16, 0, 0, "over 64 KiB"},
    {MSG_ANSWER, 24, 8, 0, 0, "ANSWER (0x7004) from apid: not for this sender to say"},
    {0x7005, 24, 8, 0, 0, "? (0x7005) from apid: unknown type"},
    {0, 16, 0, 0, 0, "unknown type"},
};

#define PACKETS (sizeof(packets) / sizeof(packets[0]))

static void
a_packet_that_breaks_a_rule_is_fatal(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < PACKETS; i++)
		assert_fatal(sends_raw, &packets[i], packets[i].reason);
}

static void
on_breach(struct chan *c, const char *why)
{
	struct seen *s = chan_arg(c);

	s->breaches++;
	s->why = why;
	if (s->free_in_handler) {
		chan_free(c);
		receiver = NULL;
	}
}

static void
breaks_a_rule_and_costs_only_itself(void *arg)
{
	const struct packet *p = arg;
	int freed = seen.free_in_handler;

	/* A socket of its own: what stays unread must not meet the next try. */
	if (setup(NULL) == -1)
		abort();
	seen.free_in_handler = freed;
	chan_on_breach(receiver, on_breach);
	sends_raw(arg);
	if (seen.breaches != 1 || seen.gone != 0 || seen.messages != 0 ||
	    strstr(p->reason, seen.why) == NULL)
		abort();
	if (receiver == NULL)
		return;
	/* It is over: nothing is read, nothing is sent, descriptors do not stay. */
	ask(0, "");
	chan_readable(receiver);
	if (seen.messages != 0 || seen.breaches != 1 || chan_queued(receiver) != 0)
		abort();
	send_ANSWER(receiver, 1, &(struct m_word){0}, NULL, 0, -1);
}

static void
where_the_owner_says_so_a_breach_costs_the_peer_alone(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < PACKETS; i++) {
		seen.free_in_handler = 0;
		assert_survives(breaks_a_rule_and_costs_only_itself, &packets[i]);
		seen.free_in_handler = 1;
		assert_survives(breaks_a_rule_and_costs_only_itself, &packets[i]);
	}
}

static void
sends_too_little(void *arg)
{
	(void)arg;
	if (send(raw, "short", 5, 0) != 5)
		abort();
	chan_readable(receiver);
}

static void
a_packet_without_a_header_is_fatal(void **state)
{
	(void)state;
	assert_fatal(sends_too_little, NULL, "shorter than a header");
}

static void
says_what_the_peer_says(void *arg)
{
	(void)arg;
	send_ANSWER(sender, 1, &(struct m_word){0}, NULL, 0, -1);
}

static void
sends_too_long_a_tail(void *arg)
{
	(void)arg;
	send_ASK(sender, 1, &(struct m_word){0}, arg, 101, -1);
}

static void
sends_too_small_a_payload(void *arg)
{
	(void)arg;
	chan_send(sender, MSG_ASK, 1, arg, 7, arg, 1, -1);
}

static void
forgets_the_descriptor(void *arg)
{
	(void)arg;
	send_GIVE(sender, 1, &(struct m_word){0}, NULL, 0, -1);
}

static void
a_sender_that_breaks_its_own_table_is_fatal(void **state)
{
	char bytes[128] = {0};

	(void)state;
	assert_fatal(says_what_the_peer_says, NULL, "not for this sender to say");
	assert_fatal(sends_too_long_a_tail, bytes, "too long");
	assert_fatal(sends_too_small_a_payload, bytes, "wrong payload");
	assert_fatal(forgets_the_descriptor, NULL, "without its descriptor");
}

/* On a loop: a sender that must wait gets everything across, and does not ask for writability
 * before or after. */
static void
on_a_loop_everything_arrives_and_nothing_spins(void **state)
{
	static char tail[60000];
	struct event_base *base = event_base_new();
	struct seen s = {.base = base};
	struct chan *a, *b;
	int pair[2], i;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	a = chan_event_new(base, pair[0], &proto, APID, MANAGERD, nobody_speaks, NULL, NULL);
	b = chan_event_new(base, pair[1], &proto, MANAGERD, APID, on_message, on_gone, &s);
	assert_int_equal(event_base_get_num_events(base, EVENT_BASE_COUNT_ADDED), 2);
	for (i = 0; i < 100; i++)
		send_GIVE(a, (uint64_t)i + 1, &(struct m_word){(uint64_t)i}, tail, sizeof(tail),
		    open("/dev/null", O_RDONLY));
	assert_int_equal(event_base_get_num_events(base, EVENT_BASE_COUNT_ADDED), 3);
	while (s.messages < 100)
		assert_int_equal(event_base_loop(base, EVLOOP_ONCE), 0);
	assert_int_equal(event_base_get_num_events(base, EVENT_BASE_COUNT_ADDED), 2);
	chan_free(a);
	event_base_dispatch(base);
	assert_int_equal(s.gone, 1);
	assert_int_equal(event_base_get_num_events(base, EVENT_BASE_COUNT_ADDED), 0);
	chan_free(b);
	event_base_free(base);
}

static void
on_a_loop_a_channel_may_be_freed_in_its_handler(void **state)
{
	struct event_base *base = event_base_new();
	struct seen s = {.free_in_handler = 1};
	struct chan *a;
	int pair[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	a = chan_event_new(base, pair[0], &proto, APID, MANAGERD, nobody_speaks, on_gone, &seen);
	chan_event_new(base, pair[1], &proto, MANAGERD, APID, on_message, on_gone, &s);
	send_ASK(a, 1, &(struct m_word){0}, NULL, 0, -1);
	seen.base = base;
	event_base_dispatch(base);
	assert_int_equal(s.messages, 1);
	assert_int_equal(seen.gone, 1);
	chan_free(a);
	event_base_free(base);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(a_message_arrives_whole),
	    TEST(the_largest_message_arrives),
	    TEST(a_descriptor_is_close_on_exec_and_the_senders_copy_is_closed),
	    TEST(a_descriptor_that_nobody_takes_is_closed),
	    TEST(what_the_socket_does_not_take_waits_and_keeps_its_order),
	    TEST(one_call_reads_a_bounded_number),
	    TEST(a_peer_that_leaves_is_told_once_after_its_last_message),
	    TEST(a_peer_that_leaves_with_unread_messages_is_gone_too),
	    TEST(what_is_sent_to_nobody_is_dropped_with_its_descriptor),
	    TEST(a_channel_may_be_freed_in_its_handler),
	    TEST(freeing_closes_what_is_queued),
	    TEST(descriptors_in_flight_beyond_the_limit_stay_queued),
	    TEST(a_peer_that_never_reads_is_fatal_before_memory_is_full),
	    TEST(a_packet_that_breaks_a_rule_is_fatal),
	    TEST(where_the_owner_says_so_a_breach_costs_the_peer_alone),
	    TEST(a_packet_without_a_header_is_fatal),
	    TEST(a_sender_that_breaks_its_own_table_is_fatal),
	    TEST(on_a_loop_everything_arrives_and_nothing_spins),
	    TEST(on_a_loop_a_channel_may_be_freed_in_its_handler),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
