/* The channel engine: a packet that breaks a rule, in either direction, ends us, or the peer where
 * its owner says so. */
#include "tests/unit/chan_kit.h"

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
    {0x7006, 24, 8, 0, 0, "? (0x7006) from apid: unknown type"},
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

static void
a_peer_of_any_number_has_a_name(void **state)
{
	(void)state;
	assert_string_equal(chan_peer_name(APID), "apid");
	assert_string_equal(chan_peer_name(KEYD), "keyd");
	for (int peer = KEYD + 1; peer < 1000; peer++)
		assert_string_equal(chan_peer_name((enum peer)peer), "nobody");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(a_packet_that_breaks_a_rule_is_fatal),
	    TEST(where_the_owner_says_so_a_breach_costs_the_peer_alone),
	    TEST(a_packet_without_a_header_is_fatal),
	    TEST(a_sender_that_breaks_its_own_table_is_fatal),
	    cmocka_unit_test(a_peer_of_any_number_has_a_name),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
