// link: -ljansson
/* A log line is one write, cannot be forged or overlong, and leaves errno alone; fatal texts end
 * with their status. */
#include "tests/unit/forked.h"

#include <errno.h>
#include <sys/socket.h>

#include <jansson.h>

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
	log_warnx("%s", "\xc2\x80 \xc2\x9f \xc2\xa0 ~\x1f");
	assert_non_null(strstr(line(), "\\xc2\x80 \\xc2\x9f \xc2\xa0 ~\\x1f"));
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

/* As much of it as there is room for, wherever what takes four bytes comes to the end. */
static void
a_line_that_is_cut_is_full(void **state)
{
	static char text[3 * LOG_LINE_MAX];

	(void)state;
	for (size_t ahead = 0; ahead < 8; ahead++) {
		memset(text, '\n', sizeof(text) - 1);
		memset(text, 'x', ahead);
		log_info("%s", text);
		assert_in_range(strlen(line()), LOG_LINE_MAX - 28 - 4, LOG_LINE_MAX - 28 - 1);
	}
	memset(text, 'x', sizeof(text) - 1);
	log_info("%s", text);
	assert_int_equal(strlen(line()), LOG_LINE_MAX - 28 - 1);
}

static void
an_empty_text_is_an_empty_line(void **state)
{
	const char *said;

	(void)state;
	log_info("%s", "");
	said = line();
	assert_string_equal(strstr(said, ": "), ": info: ");
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
	log_warn("no");
	assert_null(line());
	log_set_level(LOG_LEVEL_INFO);
	log_info("yes");
	assert_non_null(line());
	log_debug("no");
	assert_null(line());
	log_set_level(LOG_LEVEL_DEBUG);
	log_debug("yes");
	assert_non_null(strstr(line(), "]: debug: yes"));
	log_set_level(LOG_LEVEL_WARN);
	log_warn("yes");
	assert_non_null(line());
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
	for (const char *how = "fxc"; *how != '\0'; how++) {
		f = forked_run(dies, (void *)(uintptr_t)how);
		assert_ptr_equal(strchr(f.log, '\n'), f.log + strlen(f.log) - 1); /* one line */
	}
}

static void
only_what_is_said_to_be_an_error_has_the_text_of_one(void **state)
{
	static void (*const say[])(const char *, ...) = {log_warnx, log_info, log_debug};

	(void)state;
	for (size_t i = 0; i < sizeof(say) / sizeof(say[0]); i++) {
		const char *text;

		errno = ENOENT;
		say[i]("%s", "x");
		text = line();
		assert_string_equal(text + strlen(text) - 3, ": x");
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static void
lines_about_a_request_carry_its_id(void **state)
{
	(void)state;
	assert_null(log_request("req_1"));
	log_info("a");
	assert_non_null(strstr(line(), "info: req_1: a"));
	assert_string_equal(log_request(NULL), "req_1");
	log_info("b");
	assert_non_null(strstr(line(), "info: b"));
}

/* The one line that is there, as JSON. */
static json_t *
object(void)
{
	static char buf[2 * LOG_LINE_MAX];
	ssize_t n = recv(lines, buf, sizeof(buf), MSG_DONTWAIT);
	json_t *o;

	assert_in_range(n, 1, LOG_LINE_MAX);
	assert_int_equal(buf[n - 1], '\n');
	assert_ptr_equal(memchr(buf, '\n', (size_t)n), buf + n - 1);
	o = json_loadb(buf, (size_t)n, 0, NULL);
	assert_non_null(o);
	assert_string_equal(json_string_value(json_object_get(o, "program")), "prog");
	assert_int_equal(json_integer_value(json_object_get(o, "pid")), getpid());
	return o;
}

static void
said(const char *message, const char *id)
{
	json_t *o = object();

	assert_string_equal(json_string_value(json_object_get(o, "message")), message);
	if (id == NULL)
		assert_null(json_object_get(o, "request_id"));
	else
		assert_string_equal(json_string_value(json_object_get(o, "request_id")), id);
	json_decref(o);
}

static void
any_bytes_make_one_valid_object_a_line(void **state)
{
	static char all[256], rest[3 * LOG_LINE_MAX];
	json_t *o;
	int i;

	(void)state;
	log_set_json(1);
	log_info("%s", "a \"b\" \\ \n\r\t\x01\x7f caf\xc3\xa9 \xf0\x9f\x90\x8d");
	said("a \"b\" \\ \n\r\t\x01\x7f caf\xc3\xa9 \xf0\x9f\x90\x8d", NULL);
	log_info("%s", "\xff\xc3(\xed\xa0\x80\xf0\x80\x80\x80\xe2\x82");
	said("\xef\xbf\xbd\xef\xbf\xbd("
	     "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef"
	     "\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd",
	    NULL);
	for (i = 1; i < 256; i++)
		all[i - 1] = (char)i;
	log_warnx("%s", all);
	json_decref(object());
	for (i = 1; i < 256; i++) {
		memset(rest, i, sizeof(rest) - 1);
		log_info("%s", rest);
		json_decref(object());
	}
	errno = ENOENT;
	log_warn("open");
	assert_int_equal(errno, ENOENT);
	o = object();
	assert_string_equal(json_string_value(json_object_get(o, "level")), "warning");
	assert_string_equal(
	    json_string_value(json_object_get(o, "message")), "open: No such file or directory");
	json_decref(o);
	log_set_json(0);
}

/* The first and last character of each length, and what lies just beside them. */
static void
only_characters_of_utf_8_are_passed_on(void **state)
{
	static const char *const good[] = {"\xc2\xa0", "\xc2\xa9", "\xdf\xbf", "\xe0\xa0\x80",
	    "\xed\x9f\xbf", "\xee\x80\x80", "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf",
	    "\xf3\xbf\xbf\xbf"};
	static const char *const bad[] = {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf",
	    "\xed\xa0\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff",
	    "\xc2", "\xe1\x80", "\xf1\x80\x80"};
	char want[64];

	(void)state;
	log_set_json(1);
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		log_info("%s", good[i]);
		said(good[i], NULL);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		want[0] = '\0';
		for (size_t k = 0; k < strlen(bad[i]); k++)
			strcat(want, "\xef\xbf\xbd");
		log_info("%s", bad[i]);
		said(want, NULL);
	}
	log_set_json(0);
}

static void
a_request_id_of_any_bytes_leaves_room_for_the_message(void **state)
{
	char id[72];

	(void)state;
	log_set_json(1);
	memset(id, 1, sizeof(id) - 1);
	id[64] = '\0';
	log_request(id);
	log_info("hello");
	said("hello", id);
	log_request(NULL);
	log_info("hello");
	said("hello", NULL);
	log_set_json(0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(a_line_names_program_process_and_level),
	    TEST(control_bytes_are_shown_and_cannot_begin_a_line),
	    TEST(a_long_text_is_cut_to_one_line),
	    TEST(a_line_that_is_cut_is_full),
	    TEST(an_empty_text_is_an_empty_line),
	    TEST(errno_is_told_and_kept),
	    TEST(a_level_hides_what_is_below_it),
	    TEST(fatal_ends_with_its_status),
	    TEST(only_what_is_said_to_be_an_error_has_the_text_of_one),
	    TEST(lines_about_a_request_carry_its_id),
	    TEST(any_bytes_make_one_valid_object_a_line),
	    TEST(only_characters_of_utf_8_are_passed_on),
	    TEST(a_request_id_of_any_bytes_leaves_room_for_the_message),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
