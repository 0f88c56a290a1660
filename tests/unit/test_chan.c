/* The channel engine: what is sent arrives once, whole and in order, with its descriptor; waiting
 * costs nothing. */
#include "tests/unit/chan_kit.h"

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
	assert_int_equal(fcntl(seen.kept_fd, F_GETFD), FD_CLOEXEC);
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
	static char tail[MSG_MAX];
	size_t len = *(size_t *)arg;

	for (;;)
		send_LARGE(sender, 1, &(struct m_word){0}, tail, len, -1);
}

static void
a_peer_that_never_reads_is_fatal_before_memory_is_full(void **state)
{
	size_t most = MSG_MAX - 16 - 8, least = 0;

	(void)state;
	assert_fatal(fills_the_queue, &most,
	    ": 1024 packets of 67108864 bytes wait, and managerd does not read them");
	assert_fatal(fills_the_queue, &least,
	    ": 65536 packets of 1572864 bytes wait, and managerd does not read them");
}

static size_t queued_at[2]; /* when it was told to go on, and to hold */

static void
on_hold(struct chan *c, int hold)
{
	queued_at[hold] = chan_queued(c);
}

/* Answers of so many bytes, until it is told to hold; then they are read, until it may go on. */
static void
answers_and_is_read(size_t len)
{
	static char tail[MSG_MAX];
	struct seen s = {0};
	struct chan *a, *b;
	uint64_t i;
	int pair[2];

	queued_at[0] = queued_at[1] = 0;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	a = chan_new(pair[0], &proto, APID, MANAGERD, on_message, NULL, &s);
	b = chan_new(pair[1], &proto, MANAGERD, APID, nobody_speaks, NULL, NULL);
	chan_on_hold(b, on_hold);
	for (i = 0; queued_at[1] == 0; i++)
		send_LENGTHY(b, i + 1, &(struct m_word){i}, tail, len, -1);
	while (queued_at[0] == 0) {
		assert_int_equal(chan_read_one(a), 1);
		chan_writable(b);
	}
	chan_free(a);
	chan_free(b);
}

/* By bytes, and by packets. */
static void
who_answers_holds_above_its_mark_and_goes_on_at_a_quarter(void **state)
{
	size_t marks[] = {CHAN_ANSWERS_MAX / 32768, CHAN_ANSWERS_PACKETS};
	size_t lens[] = {32768 - 16 - 8, 0};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		answers_and_is_read(lens[i]);
		assert_int_equal(queued_at[1], marks[i] + 1);
		assert_in_range(queued_at[0], marks[i] / 4 - 4, marks[i] / 4);
	}
}

static void
a_channel_is_inherited_by_nobody_and_never_blocks(void **state)
{
	struct chan *c;
	int pair[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	c = chan_new(pair[0], &proto, APID, MANAGERD, nobody_speaks, NULL, NULL);
	assert_int_equal(chan_fd(c), pair[0]);
	assert_int_equal(fcntl(pair[0], F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(pair[0], F_GETFL) & (O_NONBLOCK | O_ACCMODE), O_NONBLOCK | O_RDWR);
	chan_free(c);
	assert_false(is_open(pair[0]));
	close(pair[1]);
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
answers_at_length(struct chan *c, struct msg *m)
{
	static char tail[60000];

	send_LENGTHY(c, m->id, &(struct m_word){m->id - 1}, tail, sizeof(tail), -1);
	++*(size_t *)chan_arg(c);
}

/* Who asks for more than it reads waits, and then gets all. */
static void
on_a_loop_who_does_not_read_answers_is_not_read(void **state)
{
	struct event_base *base = event_base_new();
	struct seen s = {0};
	struct chan *a, *b;
	size_t answered = 0;
	int pair[2], i;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	a = chan_new(pair[0], &proto, APID, MANAGERD, on_message, NULL, &s);
	b = chan_event_new(
	    base, pair[1], &proto, MANAGERD, APID, answers_at_length, NULL, &answered);
	chan_event_hold(b);
	for (i = 0; i < 2000; i++) {
		send_ASK(a, (uint64_t)i + 1, &(struct m_word){0}, NULL, 0, -1);
		event_base_loop(base, EVLOOP_NONBLOCK);
		chan_writable(a);
	}
	assert_in_range(answered, 1, 2 * CHAN_ANSWERS_MAX / 60000);
	while (s.messages < 2000) {
		chan_readable(a);
		chan_writable(a);
		event_base_loop(base, EVLOOP_NONBLOCK);
	}
	assert_int_equal(answered, 2000);
	chan_free(a);
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
	    TEST(who_answers_holds_above_its_mark_and_goes_on_at_a_quarter),
	    TEST(a_channel_is_inherited_by_nobody_and_never_blocks),
	    TEST(on_a_loop_everything_arrives_and_nothing_spins),
	    TEST(on_a_loop_who_does_not_read_answers_is_not_read),
	    TEST(on_a_loop_a_channel_may_be_freed_in_its_handler),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
