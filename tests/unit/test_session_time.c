// link: sessiond/args.o sessiond/buf.o sessiond/channel.o sessiond/data.o sessiond/guest.o
// link: sessiond/dial.o
// link: sessiond/job.o sessiond/job_exec.o sessiond/job_file.o sessiond/manager.o sessiond/pack.o
// link: sessiond/session.o sessiond/sha256.o sessiond/stdcopy.o sessiond/text.o
// link: tests/fuzz/session_harness.o -l:libcrypto.a -lzstd
/* Deadlines of jobs that are too long for a test to wait: time is moved instead. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/fuzz/session_harness.h"

#define SECOND 1000000LL

static struct job *
only_job(struct harness *h)
{
	return TAILQ_FIRST(&h->s.jobs);
}

/* So much time passes for the job, then its timer fires. */
static void
pass(struct harness *h, struct job *j, int64_t us)
{
	j->began_us -= us;
	j->heard_us -= us;
	j->deadline_us -= us;
	event_active(&j->timer, EV_TIMEOUT, 1);
	harness_turn(h, 1);
}

static void
say(struct harness *h, uint8_t type, uint16_t channel, const void *data, uint32_t len)
{
	uint8_t frame[FRAME_HEADER + 1024];

	frame_header(frame, type, channel, data, len);
	if (len > 0)
		memcpy(frame + FRAME_HEADER, data, len);
	assert_null(guest_feed(&h->s, frame, FRAME_HEADER + len));
}

static void
transfer_that_the_guest_forgets_is_closed_and_then_the_session_ends(void **state)
{
	static struct harness h;
	struct job *j;

	(void)state;
	harness_open(&h, GUEST_RAW);
	harness_file(&h, JOB_READ);
	j = only_job(&h);
	pass(&h, j, 119 * SECOND);
	assert_false(j->closing);
	pass(&h, j, 2 * SECOND);
	assert_true(j->closing);
	assert_int_equal(j->status, 502);
	assert_int_equal(h.s.state, SESSION_UP);
	pass(&h, j, 11 * SECOND);
	assert_int_equal(h.s.state, SESSION_DOWN);
	harness_close(&h);
}

static void
slow_client_of_an_upload_is_not_the_guests_fault(void **state)
{
	static struct harness h;
	struct job *j;

	(void)state;
	harness_open(&h, GUEST_RAW);
	harness_file(&h, JOB_WRITE);
	j = only_job(&h);
	say(&h, G_STARTED, j->channel, NULL, 0);
	pass(&h, j, 1000 * SECOND);
	assert_false(j->closing);
	harness_close(&h);
}

static void
snapshot_in_which_the_guest_stops_is_closed_though_the_clock_of_the_sandbox_stands(void **state)
{
	static struct harness h;
	struct job *j;

	(void)state;
	harness_open(&h, GUEST_RAW);
	harness_pack(&h, JOB_SNAPSHOT);
	j = only_job(&h);
	say(&h, G_STARTED, j->channel, NULL, 0);
	assert_int_equal(h.s.freezers, 1);
	pass(&h, j, 121 * SECOND);
	assert_true(j->closing);
	pass(&h, j, 11 * SECOND);
	assert_int_equal(h.s.state, SESSION_DOWN);
	harness_close(&h);
}

static void
snapshot_that_trickles_does_not_freeze_the_sandbox_for_ever(void **state)
{
	static struct harness h;
	struct job *j;
	int i;

	(void)state;
	harness_open(&h, GUEST_RAW);
	harness_pack(&h, JOB_SNAPSHOT);
	j = only_job(&h);
	say(&h, G_STARTED, j->channel, NULL, 0);
	for (i = 0; i < 5 && !j->closing; i++) {
		pass(&h, j, 60 * SECOND);
		if (!j->closing)
			say(&h, G_DATA, j->channel, "x", 1);
	}
	assert_true(j->closing);
	harness_close(&h);
}

static void
command_is_killed_ten_seconds_after_its_limit_which_stands_still_while_frozen(void **state)
{
	static struct harness h;
	struct job *j;
	int64_t frozen;

	(void)state;
	harness_open(&h, GUEST_RAW);
	harness_exec(&h, 0, 0); /* one second */
	j = only_job(&h);
	say(&h, G_STARTED, j->channel, NULL, 0);
	session_freeze(&h.s, 1);
	h.s.frozen_since_us -= 100 * SECOND;
	j->heard_us -= 100 * SECOND;
	j->deadline_us -= 100 * SECOND; /* as if it had begun 100 s ago, and been frozen since */
	frozen = session_clock_us(&h.s);
	event_active(&j->timer, EV_TIMEOUT, 1);
	harness_turn(&h, 1);
	assert_false(j->closing);
	assert_int_equal(session_clock_us(&h.s), frozen);
	session_freeze(&h.s, 0);
	pass(&h, j, 9 * SECOND);
	assert_false(j->closing);
	pass(&h, j, 3 * SECOND);
	assert_true(j->closing);
	assert_int_equal(h.s.state, SESSION_UP);
	pass(&h, j, 11 * SECOND);
	assert_int_equal(h.s.state, SESSION_DOWN);
	harness_close(&h);
}

/* The guest reads nothing until no request begins any more. */
static void
fill(struct harness *h)
{
	static const uint8_t zeros[FRAME_DATA_MAX];
	int i;

	for (i = 0; i < 32; i++)
		guest_send(&h->s, G_STDIN, 1, zeros, sizeof(zeros));
	guest_flush(&h->s);
	assert_true(guest_full(&h->s));
}

static void
guest_that_reads_nothing_ends_the_session_and_the_requests_that_wait_for_it(void **state)
{
	static struct harness h;
	struct timeval due;

	(void)state;
	harness_open(&h, GUEST_RAW);
	fill(&h);
	harness_file(&h, JOB_READ);
	assert_int_equal(only_job(&h)->phase, JOB_WAITING);
	assert_true(event_pending(&h.s.guest.ev_write, EV_TIMEOUT, &due));
	event_active(&h.s.guest.ev_write, EV_TIMEOUT, 1);
	harness_turn(&h, 0);
	assert_int_equal(h.s.state, SESSION_DOWN);
	harness_close(&h);
}

static void
time_of_a_guest_that_reads_slowly_begins_anew_and_only_then(void **state)
{
	static struct harness h;
	static char scrap[1 << 16];
	struct timeval first, again;

	(void)state;
	harness_open(&h, GUEST_RAW);
	fill(&h);
	assert_true(event_pending(&h.s.guest.ev_write, EV_TIMEOUT, &first));
	usleep(20 * 1000); /* libevent's clock has ticks of up to 10 ms */
	guest_send(&h.s, G_STDIN, 1, scrap, 1);
	guest_flush(&h.s);
	assert_true(event_pending(&h.s.guest.ev_write, EV_TIMEOUT, &again));
	assert_memory_equal(&first, &again, sizeof(first));
	while (recv(h.guest, scrap, sizeof(scrap), MSG_DONTWAIT) > 0)
		;
	guest_flush(&h.s);
	assert_true(event_pending(&h.s.guest.ev_write, EV_TIMEOUT, &again));
	assert_true(timercmp(&first, &again, <));
	harness_close(&h);
}

static void
control_frames_have_a_rate(void **state)
{
	struct guest g = {0};
	int i;

	(void)state;
	assert_int_equal(guest_charge(&g, GUEST_BUDGET), 0);
	assert_int_equal(guest_charge(&g, 1), -1);
	g.second_us -= SECOND;
	for (i = 0; i < 10; i++)
		assert_int_equal(guest_charge(&g, GUEST_BUDGET / 10), 0);
	assert_int_equal(guest_charge(&g, 1), -1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(transfer_that_the_guest_forgets_is_closed_and_then_the_session_ends),
	    cmocka_unit_test(slow_client_of_an_upload_is_not_the_guests_fault),
	    cmocka_unit_test(
		snapshot_in_which_the_guest_stops_is_closed_though_the_clock_of_the_sandbox_stands),
	    cmocka_unit_test(snapshot_that_trickles_does_not_freeze_the_sandbox_for_ever),
	    cmocka_unit_test(
		command_is_killed_ten_seconds_after_its_limit_which_stands_still_while_frozen),
	    cmocka_unit_test(
		guest_that_reads_nothing_ends_the_session_and_the_requests_that_wait_for_it),
	    cmocka_unit_test(time_of_a_guest_that_reads_slowly_begins_anew_and_only_then),
	    cmocka_unit_test(control_frames_have_a_rate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
