/* The configuration: every row of the table at its default, its edges and beyond; names, lines, and
 * what goes together. */
// link: config/parse.o config/check.o config/check_front.o config/address.o common/keys_net.o common/image_ref.o
// link: common/egress.o common/egress_list.o common/egress_range.o
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/log.h"
#include "config/settings.h"

#define KEY16 "0123456789abcdef"

static char text[CONFIG_ERROR_MAX];

struct row {
	const char *name;
	enum config_type type;
	const char *def;
	int64_t min, max;
};
#define ROW(key, type, def, lo, hi, to, doc) {"AGENT_SANDBOX_" #key, CONFIG_##type, def, lo, hi},
static const struct row rows[CONFIG_KEYS] = {CONFIG_TABLE(ROW)};

static int
setup(void **state)
{
	static struct settings s;

	config_init(&s);
	assert_int_equal(config_put(&s, FROM_DEFAULT, "AGENT_SANDBOX_API_KEYS", KEY16, text), 0);
	*state = &s;
	return 0;
}

static int
teardown(void **state)
{
	config_free(*state);
	return 0;
}

static int
put(struct settings *s, const char *name, const char *value)
{
	memset(text, 0, sizeof(text));
	return config_put(s, FROM_ENV, name, value, text);
}

static int
lines(struct settings *s, const char *content)
{
	char buf[1024];

	snprintf(buf, sizeof(buf), "%s", content);
	return config_put_lines(s, buf, text, NULL);
}

/* A value in units as a decimal text. */
static void
format(char *buf, size_t size, const struct row *row, int64_t n)
{
	if (row->type == CONFIG_DEC)
		snprintf(buf, size, "%lld.%09lld", (long long)(n / 1000000000),
		    (long long)(n % 1000000000));
	else
		snprintf(buf, size, "%lld", (long long)n);
}

static void
defaults_are_a_whole_configuration(void **state)
{
	struct settings *s = *state;

	assert_int_equal(config_check(s, text), 0);
	assert_int_equal(s->c.num[CFG_PORT], 8080);
	assert_int_equal(s->c.num[CFG_DEFAULT_CPUS], 1000000000);
	assert_int_equal(s->c.num[CFG_REAP_INTERVAL_SECONDS], 10000000000);
	assert_int_equal(s->c.num[CFG_LOG_LEVEL], LOG_LEVEL_INFO);
	assert_string_equal(s->engine, "/var/run/docker.sock");
}

static void
numbers_hold_from_minimum_to_maximum_and_no_further(void **state)
{
	struct settings *s = *state;
	char value[64];

	for (int key = 0; key < CONFIG_KEYS; key++) {
		const struct row *row = &rows[key];
		const int64_t good[] = {row->min, row->max}, bad[] = {row->min - 1, row->max + 1};

		if (row->type != CONFIG_INT && row->type != CONFIG_DEC)
			continue;
		for (int i = 0; i < 2; i++) {
			format(value, sizeof(value), row, good[i]);
			assert_int_equal(put(s, row->name, value), 0);
			assert_int_equal(s->c.num[key], good[i]);
			format(value, sizeof(value), row, bad[i]);
			assert_int_equal(put(s, row->name, value), -1);
			assert_non_null(strstr(text, row->name));
			assert_int_equal(s->c.num[key], good[i]);
		}
	}
}

static void
what_is_no_number_is_refused_for_every_number(void **state)
{
	static const char *const wrong[] = {"", "x", "1x", "0x10", "1e3", "+1", "--1", "1 0", "1.",
	    ".5", "1.2.3", "1,5", "99999999999999999999999", "1.0000000001", "\xc2\xbd"};
	struct settings *s = *state;

	for (int key = 0; key < CONFIG_KEYS; key++) {
		if (rows[key].type != CONFIG_INT && rows[key].type != CONFIG_DEC)
			continue;
		for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
			assert_int_equal(put(s, rows[key].name, wrong[i]), -1);
			assert_non_null(strstr(text, rows[key].name));
		}
		if (rows[key].type == CONFIG_INT)
			assert_int_equal(put(s, rows[key].name, "20.0"), -1);
	}
}

static void
truth_values_are_the_nine_words_in_any_case(void **state)
{
	static const char *const yes[] = {"1", "true", "YES", "On", " true "},
				 *const no[] = {"0", "False", "no", "OFF", "", " "},
				 *const wrong[] = {"2", "perhaps", "tru", "y", "-1", "truee"};
	struct settings *s = *state;

	for (int key = 0; key < CONFIG_KEYS; key++) {
		if (rows[key].type != CONFIG_BOOL)
			continue;
		for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
			assert_int_equal(put(s, rows[key].name, yes[i]), 0);
			assert_int_equal(s->c.num[key], 1);
		}
		for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++) {
			assert_int_equal(put(s, rows[key].name, no[i]), 0);
			assert_int_equal(s->c.num[key], 0);
		}
		for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
			assert_int_equal(put(s, rows[key].name, wrong[i]), -1);
			assert_non_null(strstr(text, rows[key].name));
		}
	}
}

static void
texts_are_trimmed_bounded_and_without_control_characters(void **state)
{
	struct settings *s = *state;
	static char longest[CONFIG_STRING_MAX + 1];

	for (int key = 0; key < CONFIG_KEYS; key++) {
		if (rows[key].type != CONFIG_STR)
			continue;
		assert_int_equal(put(s, rows[key].name, " a-value\t"), 0);
		assert_string_equal(s->c.str[key], "a-value");
		assert_int_equal(put(s, rows[key].name, "two\nlines"), -1);
		memset(longest, 'x', CONFIG_STRING_MAX);
		assert_int_equal(put(s, rows[key].name, longest), -1);
		longest[CONFIG_STRING_MAX - 1] = '\0';
		assert_int_equal(put(s, rows[key].name, longest), 0);
	}
}

static void
unknown_names_of_ours_are_errors_and_others_are_ignored(void **state)
{
	static const char *const wrong[] = {"AGENT_SANDBOX_", "AGENT_SANDBOX_PORTS",
	    "AGENT_SANDBOX_POR", "AGENT_SANDBOX_port", "AGENT_SANDBOX_API_KEY_",
	    "AGENT_SANDBOX_MCP", "AGENT_SANDBOX_URLS", "AGENT_SANDBOX_CA_FILES",
	    "AGENT_SANDBOX_CLIENT_CA"};
	static const char *const fine[] = {"AGENT_SANDBOX_API_KEY", "AGENT_SANDBOX_URL",
	    "AGENT_SANDBOX_VERSION", "AGENT_SANDBOX_INSTALL", "AGENT_SANDBOX_TEST_IMAGE",
	    "AGENT_SANDBOX_MCP_", "AGENT_SANDBOX_MCP_X", "AGENT_SANDBOX_API_KEY_FILE",
	    "AGENT_SANDBOX_CA_FILE", "AGENT_SANDBOX_CLIENT_CERT", "AGENT_SANDBOX_CLIENT_KEY",
	    "PATH", ""};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_int_equal(put(*state, wrong[i], "1"), -1);
		assert_non_null(strstr(text, wrong[i]));
	}
	for (size_t i = 0; i < sizeof(fine) / sizeof(fine[0]); i++)
		assert_int_equal(put(*state, fine[i], "\x01"), 0);
}

static void
stronger_sources_win_in_any_order(void **state)
{
	struct settings *s = *state;

	assert_int_equal(config_put(s, FROM_ARGV, "AGENT_SANDBOX_PORT", "1", text), 0);
	assert_int_equal(config_put(s, FROM_ENV, "AGENT_SANDBOX_PORT", "2", text), 0);
	assert_int_equal(s->c.num[CFG_PORT], 1);
	assert_int_equal(lines(s, "AGENT_SANDBOX_HOST=file\n"), 0);
	assert_int_equal(config_put(s, FROM_ENV, "AGENTBOX_HOST", "alias", text), 0);
	assert_string_equal(s->c.str[CFG_HOST], "file");
	assert_int_equal(config_put(s, FROM_ENV, "AGENT_SANDBOX_HOST", "env", text), 0);
	assert_int_equal(lines(s, "AGENT_SANDBOX_HOST=file\n"), 0);
	assert_string_equal(s->c.str[CFG_HOST], "env");
	assert_int_equal(lines(s, "AGENTBOX_LOG_LEVEL=debug"), 0);
	assert_int_equal(put(s, "AGENTBOX_LOG_LEVEL", "error"), 0);
	assert_string_equal(s->c.str[CFG_LOG_LEVEL], "error");
}

static void
names_of_the_older_system_are_taken_warned_about_or_refused(void **state)
{
	static const char *const idle[] = {"AGENTBOX_SNAPSHOT_DIR", "AGENTBOX_SOMETHING_ELSE"};
	static const struct {
		const char *name;
		int key;
	} runs[] = {{"AGENTBOX_DEFAULT_TIMEOUT_SECONDS", CFG_RUN_TIMEOUT_SECONDS},
	    {"AGENTBOX_DEFAULT_MEMORY_MB", CFG_RUN_MEMORY_MB},
	    {"AGENTBOX_MAX_MEMORY_MB", CFG_RUN_MAX_MEMORY_MB},
	    {"AGENTBOX_MAX_OUTPUT_BYTES", CFG_RUN_OUTPUT_BYTES}};
	struct settings *s = *state;

	assert_int_equal(put(s, "AGENTBOX_PORT", "81"), 0);
	assert_int_equal(put(s, "AGENTBOX_DOCKER_IMAGE", "img"), 0);
	assert_int_equal(s->c.num[CFG_PORT], 81);
	assert_string_equal(s->c.str[CFG_DEFAULT_IMAGE], "img");
	assert_int_equal(put(s, "AGENTBOX_EGRESS_ALLOWLIST", "a.example"), 0);
	assert_string_equal(s->c.str[CFG_EGRESS_ALLOWLIST], "a.example");
	for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
		char value[16];

		snprintf(value, sizeof(value), "%zu", i == 0 ? 20 : 2000 + i);
		assert_int_equal(put(s, runs[i].name, value), 0);
		assert_int_equal(s->c.num[runs[i].key], i == 0 ? 20 : 2000 + i);
	}
	assert_int_equal(put(s, "AGENTBOX_DOCKER_NODE_IMAGE", "node:1"), 0);
	assert_string_equal(s->c.str[CFG_NODE_IMAGE], "node:1");
	assert_int_equal(put(s, "AGENTBOX_PORT", "x"), -1);
	assert_non_null(strstr(text, "AGENTBOX_PORT"));
	for (size_t i = 0; i < sizeof(idle) / sizeof(idle[0]); i++) {
		assert_int_equal(put(s, idle[i], "1"), 1);
		assert_non_null(strstr(text, idle[i]));
	}
	assert_int_equal(put(s, "AGENTBOX_SANDBOX_BACKEND", "Docker"), 0);
	assert_int_equal(put(s, "AGENTBOX_SANDBOX_BACKEND", ""), 0);
	assert_int_equal(put(s, "AGENTBOX_SANDBOX_BACKEND", "subprocess"), -1);
	assert_int_equal(put(s, "AGENTBOX_SANDBOX_BACKEND", "unrestricted"), -1);
}

static void
engine_is_a_unix_socket_by_absolute_path(void **state)
{
	static const char *const wrong[] = {
	    "tcp://1.2.3.4:2375", "ssh://h", "unix://x", "unix:/x", "/x", "unix://"};
	struct settings *s = *state;
	char longest[1100] = "unix:///";

	assert_int_equal(put(s, "DOCKER_HOST", "unix:///run/x.sock"), 0);
	assert_string_equal(s->engine, "/run/x.sock");
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(put(s, "DOCKER_HOST", wrong[i]), -1);
	memset(longest + 8, 'x', sizeof(longest) - 9);
	assert_int_equal(put(s, "DOCKER_HOST", longest), -1);
	assert_string_equal(s->engine, "/run/x.sock");
	assert_int_equal(put(s, "DOCKER_HOST", ""), 0);
	assert_string_equal(s->engine, ENGINE_DEFAULT);
}

static void
lines_of_a_file_are_names_and_values(void **state)
{
	struct settings *s = *state;

	assert_int_equal(
	    lines(s, "\n  # note\r\n\t\nAGENT_SANDBOX_PORT = 99 \r\nAGENT_SANDBOX_HOST=\"a\"\n"
		     "AGENT_SANDBOX_DATA_DIR='a=b'\nAGENT_SANDBOX_DEFAULT_IMAGE=\"x'\nDOCKER_HOST="
		     "unix:///e"),
	    0);
	assert_int_equal(s->c.num[CFG_PORT], 99);
	assert_string_equal(s->c.str[CFG_HOST], "a");
	assert_string_equal(s->c.str[CFG_DATA_DIR], "a=b");
	assert_string_equal(s->c.str[CFG_DEFAULT_IMAGE], "\"x'");
	assert_string_equal(s->engine, "/e");
	assert_int_equal(lines(s, "\nAGENT_SANDBOX_PORT=98\nnonsense\n"), -1);
	assert_non_null(strstr(text, "line 3"));
	assert_int_equal(lines(s, "PATH=/bin"), -1);
	assert_int_equal(lines(s, "=x"), -1);
	assert_int_equal(lines(s, "AGENT_SANDBOX_URL=x"), 0);
}

struct pair {
	const char *name, *value;
};

static void
values_that_are_wrong_by_themselves_are_refused_by_the_check(void **state)
{
	static const struct pair wrong[] = {{"API_KEYS", ""}, {"API_KEYS", ",, ,"},
	    {"API_KEYS", "fifteen-letters"}, {"API_KEYS", KEY16 ",short"},
	    {"API_KEYS", "0123456789 abcdef"}, {"API_KEYS", "0123456789abcde\xc3\xa4"},
	    {"HOST", ""}, {"HOST", "a b"}, {"DATA_DIR", ""}, {"DEFAULT_IMAGE", ""},
	    {"DEFAULT_IMAGE", "a b"}, {"ALLOWED_IMAGES", ""}, {"ALLOWED_IMAGES", " , "},
	    {"SANDBOX_USER", ""}, {"SANDBOX_USER", "1000"}, {"SANDBOX_USER", "0:0"},
	    {"SANDBOX_USER", "1000:0"}, {"SANDBOX_USER", "0:1"}, {"SANDBOX_USER", "a:b"},
	    {"SANDBOX_USER", "-1:5"}, {"SANDBOX_USER", "1:2:3"}, {"SANDBOX_USER", "1:99999999999"},
	    {"SANDBOX_USER", "10000000000000000000:1"}, {"NETWORK_NAME", ""},
	    {"NETWORK_NAME", "host"}, {"NETWORK_NAME", "Bridge"}, {"NETWORK_NAME", "container:x"},
	    {"NETWORK_NAME", "-x"}, {"NETWORK_MODE", "host"}, {"NETWORK_MODE", ""},
	    {"EGRESS_ALLOWLIST", "a.example, b c"}, {"EGRESS_ALLOWLIST", "a.example:0"},
	    {"EGRESS_ALLOWLIST", "*"}, {"EGRESS_ALLOWLIST", "http://a.example"},
	    {"DOCKER_RUNTIME", "a/b"}, {"LOG_LEVEL", ""}, {"LOG_LEVEL", "verbose"},
	    {"ALLOWED_HOSTS", "a b"}, {"TRUSTED_PROXIES", "proxy.example"},
	    {"TRUSTED_PROXIES", "10.0.0.1, 10.0.0.0/33"}, {"TRUSTED_PROXIES", "10.0.0.1/8"},
	    {"TRUSTED_PROXIES", "fd00::1::"}, {"TRUSTED_PROXIES", "*"},
	    {"TRUSTED_PROXIES", "1111:2222:3333:4444:5555:6666:7777:8888:9999:0:0:0:0:0:0:0/64"},
	    {"CORS_ORIGINS", "*"}, {"CORS_ORIGINS", "null"}, {"CORS_ORIGINS", "page.example"},
	    {"CORS_ORIGINS", "https://"}, {"CORS_ORIGINS", "https://page.example/"},
	    {"CORS_ORIGINS", "https://Page.example"}, {"CORS_ORIGINS", "https://*.example"},
	    {"CORS_ORIGINS", "https://page.example:443"}, {"CORS_ORIGINS", "https://page.example:"},
	    {"CORS_ORIGINS", "https://page.example:0"}, {"CORS_ORIGINS", "https://u@page.example"},
	    {"CORS_ORIGINS", "http://page.example"}, {"CORS_ORIGINS", "http://localhost.example"},
	    {"CORS_ORIGINS", "http://localhost:80"}, {"CORS_ORIGINS", "https://[::1"},
	    {"CORS_ORIGINS", "https://a.example, *"}, {"METRICS_LISTEN", "127.0.0.1"},
	    {"METRICS_LISTEN", "127.0.0.1:"}, {"METRICS_LISTEN", ":9464"},
	    {"METRICS_LISTEN", "9464"}, {"METRICS_LISTEN", "127.0.0.1:65536"},
	    {"METRICS_LISTEN", "127.0.0.1:+1"}, {"METRICS_LISTEN", "127.0.0.1:1:2"},
	    {"METRICS_LISTEN", "0.0.0.0:9464"}, {"METRICS_LISTEN", "192.0.2.1:9464"},
	    {"METRICS_LISTEN", "localhost:9464"}, {"METRICS_LISTEN", "[::]:9464"},
	    {"METRICS_LISTEN", "::1:9464"}, {"METRICS_LISTEN", "[::1]"},
	    {"METRICS_LISTEN", "[127.0.0.1]:9464"}, {"METRICS_LISTEN", "[::ffff:127.0.0.1]:9464"},
	    {"METRICS_LISTEN", "[1111:2222:3333:4444:5555:6666:7777:8888:9999:0000]:1"},
	    {"LOG_FORMAT", "xml"}, {"LOG_FORMAT", ""}};
	char name[64], good[CONFIG_STRING_MAX];

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct settings *s = *state;

		snprintf(name, sizeof(name), "AGENT_SANDBOX_%s", wrong[i].name);
		for (int key = 0; key < CONFIG_KEYS; key++)
			if (strcmp(rows[key].name, name) == 0)
				snprintf(good, sizeof(good), "%s", s->c.str[key]);
		assert_int_equal(put(s, name, wrong[i].value), 0);
		assert_int_equal(config_check(s, text), -1);
		assert_non_null(strstr(text, name));
		assert_int_equal(put(s, name, good), 0);
		assert_int_equal(config_check(s, text), 0);
	}
}

static void
values_that_are_odd_but_right_pass_the_check(void **state)
{
	static const struct pair right[] = {{"API_KEYS", " " KEY16 " , " KEY16 "x,"},
	    {"LOG_LEVEL", "WARNING"}, {"SANDBOX_USER", "65534:65534"},
	    {"NETWORK_NAME", "my_net.2-x"}, {"NETWORK_MODE", "proxy"},
	    {"EGRESS_ALLOWLIST", "A.example, *.b.example:8443,10.0.0.0/8,[fd00::1]:80,"},
	    {"DOCKER_RUNTIME", "io.containerd.runsc.v1"},
	    {"ALLOWED_HOSTS", "box.example,box2:8080"}, {"ALLOWED_IMAGES", "python:*, node:*"},
	    {"HOST", "[::1]"}, {"TRUSTED_PROXIES", "10.0.0.1, 192.0.2.0/24,fd00::/8,::1"},
	    {"CORS_ORIGINS",
		"https://page.example, https://a-b.example:8443,https://[fd00::1]:444"},
	    {"CORS_ORIGINS", "http://localhost, http://localhost:3000,http://[::1]:81,"
			     "http://127.0.0.1:5173"},
	    {"METRICS_LISTEN", "127.0.0.1:9464"}, {"METRICS_LISTEN", "127.9.8.7:0"},
	    {"METRICS_LISTEN", "[::1]:65535"}, {"LOG_FORMAT", "json"}, {"LOG_FORMAT", "TEXT"}};
	char name[64];

	for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
		snprintf(name, sizeof(name), "AGENT_SANDBOX_%s", right[i].name);
		assert_int_equal(put(*state, name, right[i].value), 0);
		assert_int_equal(config_check(*state, text), 0);
	}
}

static void
default_above_its_maximum_is_refused_and_equal_is_not(void **state)
{
	static const struct {
		const char *def, *max, *low, *high;
	} pairs[] = {
	    {"AGENT_SANDBOX_DEFAULT_TIMEOUT_SECONDS", "AGENT_SANDBOX_MAX_TIMEOUT_SECONDS", "900",
		"86401"},
	    {"AGENT_SANDBOX_DEFAULT_CPUS", "AGENT_SANDBOX_MAX_CPUS", "1.0", "4.000000001"},
	    {"AGENT_SANDBOX_DEFAULT_MEMORY_MB", "AGENT_SANDBOX_MAX_MEMORY_MB", "512", "4097"},
	    {"AGENT_SANDBOX_DEFAULT_PIDS_LIMIT", "AGENT_SANDBOX_MAX_PIDS_LIMIT", "256", "4097"},
	    {"AGENT_SANDBOX_DEFAULT_EXEC_TIMEOUT_SECONDS", "AGENT_SANDBOX_MAX_EXEC_TIMEOUT_SECONDS",
		"60", "3600.5"},
	};
	struct settings *s = *state;

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		assert_int_equal(put(s, pairs[i].def, pairs[i].high), 0);
		assert_int_equal(config_check(s, text), -1);
		assert_non_null(strstr(text, pairs[i].def));
		assert_non_null(strstr(text, pairs[i].max));
		assert_int_equal(put(s, pairs[i].max, pairs[i].high), 0);
		assert_int_equal(config_check(s, text), 0);
		assert_int_equal(put(s, pairs[i].def, pairs[i].low), 0);
	}
}

static void
no_key_is_needed_without_authentication(void **state)
{
	assert_int_equal(put(*state, "AGENT_SANDBOX_API_KEYS", ""), 0);
	assert_int_equal(put(*state, "AGENT_SANDBOX_INSECURE_NO_AUTH", "yes"), 0);
	assert_int_equal(config_check(*state, text), 0);
}

static void
messages_never_contain_a_key(void **state)
{
	static const char *const keys[] = {
	    "secret", "secret secret secret secret", "secret\nsecret"};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		int r = put(*state, "AGENT_SANDBOX_API_KEYS", keys[i]);

		assert_true(r == -1 || config_check(*state, text) == -1);
		assert_null(strstr(text, "secret"));
	}
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(defaults_are_a_whole_configuration),
	    TEST(numbers_hold_from_minimum_to_maximum_and_no_further),
	    TEST(what_is_no_number_is_refused_for_every_number),
	    TEST(truth_values_are_the_nine_words_in_any_case),
	    TEST(texts_are_trimmed_bounded_and_without_control_characters),
	    TEST(unknown_names_of_ours_are_errors_and_others_are_ignored),
	    TEST(stronger_sources_win_in_any_order),
	    TEST(names_of_the_older_system_are_taken_warned_about_or_refused),
	    TEST(engine_is_a_unix_socket_by_absolute_path),
	    TEST(lines_of_a_file_are_names_and_values),
	    TEST(values_that_are_wrong_by_themselves_are_refused_by_the_check),
	    TEST(values_that_are_odd_but_right_pass_the_check),
	    TEST(default_above_its_maximum_is_refused_and_equal_is_not),
	    TEST(no_key_is_needed_without_authentication),
	    TEST(messages_never_contain_a_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
