/* A log line is one write, cannot be forged or overlong, and leaves errno alone; fatal texts end
 * with their status. */
#include "tests/unit/forked.h"

#include <errno.h>
#include <sys/socket.h>

#include "common/log.h"

static int lines;

static int
setup(void **state)
{
	int pair[2];

	(void)state;
	/* Packets, so that two writes cannot look like one. */
	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == -1)
		return -1;
	lines = pair[0];
	*state = (void *)(intptr_t)dup(STDERR_FILENO);
	dup2(pair[1], STDERR_FILENO);
	close(pair[1]);
	log_init("prog", LOG_LEVEL_DEBUG);
	return 0;
}

static int
teardown(void **state)
{
	dup2((int)(intptr_t)*state, STDERR_FILENO);
	close((int)(intptr_t)*state);
	close(lines);
	return 0;
}

/* The one line that is there, without its time. */
static const char *
line(void)
{
	static char buf[2 * LOG_LINE_MAX];
	ssize_t n = recv(lines, buf, sizeof(buf) - 1, MSG_DONTWAIT);

	if (n == -1)
		return NULL;
	buf[n] = '\0';
	assert_in_range(n, 1, LOG_LINE_MAX);
	assert_int_equal(buf[n - 1], '\n');
	assert_ptr_equal(strchr(buf, '\n'), buf + n - 1);
	buf[n - 1] = '\0';
	assert_int_equal(buf[27], ' ');
	return buf + 28;
}

static void
a_line_names_program_process_and_level(void **state)
{
	char want[64];

	(void)state;
	log_info("hello %d", 5);
	snprintf(want, sizeof(want), "prog[%d]: info: hello 5", (int)getpid());
	assert_string_equal(line(), want);
	assert_null(line());
}

static void
control_bytes_are_shown_and_cannot_begin_a_line(void **state)
{
	(void)state;
	log_warnx("%s", "a\nprog[1]: fatal: b\x1b[31m\t\r\x7f");
	assert_non_null(strstr(line(), "warning: a\\x0aprog[1]: fatal: b\\x1b[31m\\x09\\x0d\\x7f"));
	log_warnx("%s", "caf\xc3\xa9 \xc2\x9b"
			"31m");
	assert_non_null(strstr(line(), "caf\xc3\xa9 \\xc2\x9b"
				       "31m"));
}

static void
a_long_text_is_cut_to_one_line(void **state)
{
	static char text[3 * LOG_LINE_MAX];

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	log_info("%s", text);
	assert_non_null(line());
	memset(text, '\n', sizeof(text) - 1);
	log_info("%s", text);
	assert_non_null(line());
	assert_null(line());
}

static void
errno_is_told_and_kept(void **state)
{
	(void)state;
	errno = ENOENT;
	log_warn("open");
	assert_int_equal(errno, ENOENT);
	assert_non_null(strstr(line(), "warning: open: No such file or directory"));
	log_warnx("open");
	assert_null(strstr(line(), "No such file"));
}

static void
a_level_hides_what_is_below_it(void **state)
{
	(void)state;
	log_set_level(LOG_LEVEL_WARN);
	log_info("no");
	log_debug("no");
	assert_null(line());
	log_warnx("yes");
	assert_non_null(line());
	log_set_level(LOG_LEVEL_ERROR);
	log_warnx("no");
	assert_null(line());
}

static void
dies(void *arg)
{
	const char *how = arg;

	errno = EPERM;
	if (how[0] == 'f')
		fatal("one");
	if (how[0] == 'x')
		fatalx("two");
	fatal_config("three");
}

static void
fatal_ends_with_its_status(void **state)
{
	struct forked f;

	(void)state;
	assert_fatal(dies, "f", "fatal: one: Operation not permitted\n");
	assert_fatal(dies, "x", "fatal: two\n");
	f = forked_run(dies, "c");
	assert_int_equal(WEXITSTATUS(f.status), EXIT_CONFIG);
	assert_non_null(strstr(f.log, "fatal: three\n"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(a_line_names_program_process_and_level),
	    TEST(control_bytes_are_shown_and_cannot_begin_a_line),
	    TEST(a_long_text_is_cut_to_one_line),
	    TEST(errno_is_told_and_kept),
	    TEST(a_level_hides_what_is_below_it),
	    TEST(fatal_ends_with_its_status),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
