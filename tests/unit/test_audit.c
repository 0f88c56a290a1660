/* The audit log: a chain that shows every change, whole after a torn line, bounded under a flood,
 * through as many files as there are, wherever a rotation is interrupted. */
// link: managerd/keys.o managerd/tenant.o common/keys_file.o common/keys_line.o common/keys_net.o
// link: managerd/audit.o managerd/audit_log.o managerd/audit_file.o managerd/audit_closed.o
// link: managerd/audit_fold.o managerd/audit_sign.o managerd/audit_syslog.o
// link: common/audit_line.o -ljansson -lcrypto
#include "tests/unit/forked.h"

#include <fcntl.h>
#include <jansson.h>
#include <openssl/sha.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "common/audit_line.h"
#include "common/ids.h"
#include "managerd/audit.h"
#include "managerd/keys.h"
#include "managerd/request.h"
#include "managerd/tenant.h"
#include "tests/unit/wall_clock.h"

static char dir[64];
static const struct audit_rules plain = {.max_bytes = 1 << 30, .refuse = 1};

static int
setup(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/audit-XXXXXX");
	return mkdtemp(dir) == NULL || chdir(dir) == -1 ? -1 : 0;
}

static int
teardown(void **state)
{
	char path[80];

	(void)state;
	snprintf(path, sizeof(path), "rm -rf %s", dir);
	return system(path);
}

static char prev[65]; /* hash of the line before */
static json_int_t seq;

/* Goes on with the chain in one file; returns the number of lines; the last one's member in *last.
 */
static int
chain_on(const char *file, const char *member, char *last, size_t size)
{
	FILE *f = fopen(file, "r");
	char line[AUDIT_LINE_MAX + 2];
	struct audit_end end;
	uint8_t digest[32];
	json_t *entry;
	int n = 0;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f) != NULL) {
		size_t len = strlen(line);

		assert_int_equal(line[len - 1], '\n');
		entry = json_loadb(line, len, 0, NULL);
		assert_non_null(entry);
		assert_string_equal(json_string_value(json_object_get(entry, "prev")), prev);
		assert_int_equal(json_integer_value(json_object_get(entry, "seq")), ++seq);
		assert_int_equal(audit_line_end(line, len - 1, &end), 0);
		assert_int_equal(end.seq, seq);
		assert_string_equal(end.prev, prev);
		SHA256((unsigned char *)line, len - 1, digest);
		hex_encode(digest, 32, prev);
		if (last != NULL)
			snprintf(
			    last, size, "%s", json_string_value(json_object_get(entry, member)));
		json_decref(entry);
		n++;
	}
	fclose(f);
	return n;
}

/* The same from the beginning, of a log with one file. */
static int
chain(const char *member, char *last, size_t size)
{
	memset(prev, '0', 64);
	prev[64] = '\0';
	seq = 0;
	return chain_on(AUDIT_FILE, member, last, size);
}

/* All files; *files is how many are closed. */
static int
chain_of_all(int *files)
{
	char name[AUDIT_CLOSED_MAX];
	int n = 0;

	memset(prev, '0', 64);
	seq = 0;
	*files = 0;
	while (access(audit_closed_name(name, (uint64_t)seq + 1), F_OK) == 0) {
		n += chain_on(name, NULL, NULL, 0);
		++*files;
	}
	if (access(AUDIT_FILE, F_OK) == 0)
		n += chain_on(AUDIT_FILE, NULL, NULL, 0);
	return n;
}

static void
write_some(void *arg)
{
	struct request rq = {.action = "create",
	    .peer = "192.0.2.1:1",
	    .request_id = "r\xff\"\n",
	    .key_name = "ci",
	    .tenant = tenant_get("acme")};
	int i;

	audit_open(&plain, NULL);
	for (i = 0; i < *(int *)arg; i++)
		audit_request(&rq, 200, NULL);
}

static void
some(int n)
{
	assert_int_equal(forked_run(write_some, &n).status, 0);
}

static void
chain_goes_on_over_restarts(void **state)
{
	(void)state;
	some(3);
	some(0);
	some(2);
	assert_int_equal(chain(NULL, NULL, 0), 5);
}

static void
torn_last_line_becomes_a_recovered_entry(void **state)
{
	struct stat st;
	char action[32];
	int cut;

	(void)state;
	for (cut = 1; cut < 60; cut += 29) {
		some(2);
		stat(AUDIT_FILE, &st);
		assert_int_equal(truncate(AUDIT_FILE, st.st_size - cut), 0);
		some(0);
		chain("action", action, sizeof(action));
		assert_string_equal(action, "recovered");
	}
	unlink(AUDIT_FILE);
	some(1);
	assert_int_equal(truncate(AUDIT_FILE, 10), 0);
	some(1);
	assert_int_equal(chain(NULL, NULL, 0), 2);
}

static void
flood(void *arg)
{
	struct m_ask ask = {.peer = "192.0.2.1:1"};
	int i;

	(void)arg;
	audit_open(&plain, NULL);
	for (i = 0; i < 1000; i++)
		audit_refused(&ask, NULL, "get", 401, "unknown key");
	audit_tick();
	audit_refused(&ask, NULL, "get", 401, "unknown key");
	audit_tick();
}

static void
flood_of_refusals_is_ten_lines_and_a_summary(void **state)
{
	char line[4096];
	FILE *f;
	int n = 0, summary = 0;

	(void)state;
	assert_int_equal(forked_run(flood, NULL).status, 0);
	assert_int_equal(chain(NULL, NULL, 0), 12);
	f = fopen(AUDIT_FILE, "r");
	while (fgets(line, sizeof(line), f) != NULL)
		if (++n == 11)
			summary = strstr(line, "\"count\":990") != NULL;
	fclose(f);
	assert_true(summary);
}

static void
refuse_for_many_reasons(void *arg)
{
	static const char *const reasons[] = {"unknown key", "expired key", "no key"};
	struct m_ask ask = {.peer = "192.0.2.1:1"};
	struct key key = {.k.name = "ci", .tenant = tenant_get("acme")};
	int i;

	(void)arg;
	audit_open(&plain, NULL);
	for (i = 0; i < 310; i++)
		audit_refused(&ask, i % 3 == 1 ? &key : NULL, "get", 401, reasons[i % 3]);
	audit_tick();
	audit_tick();
}

static void
each_reason_of_a_flood_has_a_summary(void **state)
{
	char line[4096], last[3][4096];
	FILE *f;
	int n = 0;

	(void)state;
	assert_int_equal(forked_run(refuse_for_many_reasons, NULL).status, 0);
	assert_int_equal(chain(NULL, NULL, 0), 13);
	f = fopen(AUDIT_FILE, "r");
	while (fgets(line, sizeof(line), f) != NULL) {
		if (n == 1)
			assert_non_null(strstr(line, "\"key\":\"ci\",\"tenant\":\"acme\""));
		if (n++ >= 10)
			strcpy(last[n - 11], line);
	}
	fclose(f);
	for (n = 0; n < 3; n++)
		assert_non_null(strstr(last[n], "\"count\":100"));
	assert_true(strstr(last[0], "expired") != NULL || strstr(last[1], "expired") != NULL ||
		    strstr(last[2], "expired") != NULL);
}

static void
write_full(void *arg)
{
	struct rlimit limit = {1000, RLIM_INFINITY}, none = {RLIM_INFINITY, RLIM_INFINITY};
	int n = 20;

	(void)arg;
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &limit);
	write_some(&n);
	setrlimit(RLIMIT_FSIZE, &none);
	audit_own("expire", "sb_0000000000000001", "x");
}

static void
full_disk_tears_no_line_and_the_next_one_tells(void **state)
{
	char line[4096], before[4096] = "", last[4096] = "";
	FILE *f;

	(void)state;
	assert_int_equal(forked_run(write_full, NULL).status, 0);
	assert_true(chain(NULL, NULL, 0) < 20);
	f = fopen(AUDIT_FILE, "r");
	while (fgets(line, sizeof(line), f) != NULL)
		strcpy(before, last), strcpy(last, line);
	fclose(f);
	assert_non_null(strstr(before, "{\"action\":\"gap\",\"lost\":"));
	assert_non_null(strstr(last, "{\"action\":\"expire\""));
}

/* Of these calls the one with this number ends the process before it does anything. */
static int kill_at, calls;

static void
step(void)
{
	if (kill_at > 0 && ++calls == kill_at)
		raise(SIGKILL);
}

int
rename(const char *from, const char *to)
{
	step();
	return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

int
fsync(int fd)
{
	step();
	return (int)syscall(SYS_fsync, fd);
}

int
unlink(const char *path)
{
	step();
	return unlinkat(AT_FDCWD, path, 0);
}

int
ftruncate(int fd, off_t size)
{
	step();
	return (int)syscall(SYS_ftruncate, fd, size);
}

ssize_t
write(int fd, const void *p, size_t n)
{
	step();
	return syscall(SYS_write, fd, p, n);
}

static int keep; /* closed files */

/* Each file has room for three lines or so. */
static void
write_in_small_files(void *arg)
{
	struct audit_rules small = {.max_bytes = 600, .keep = keep};
	int i;

	audit_open(&small, NULL);
	for (i = 0; i < *(int *)arg; i++)
		audit_own("expire", "sb_0000000000000001", "x");
	audit_tick();
}

static int
small_files(int n)
{
	return forked_run(write_in_small_files, &n).status;
}

static void
rotation_keeps_the_chain_and_every_line(void **state)
{
	int files, n;

	(void)state;
	keep = kill_at = 0;
	assert_int_equal(small_files(20), 0);
	assert_int_equal(small_files(20), 0);
	n = chain_of_all(&files);
	assert_true(files > 5);
	assert_int_equal(n, 40 + files); /* each closed one ends with a line that says so */
}

static void
rotation_killed_before_any_step_loses_nothing_and_goes_on(void **state)
{
	int files, n, status, done = 0;

	(void)state;
	keep = 0;
	for (kill_at = 1; !done; kill_at++) {
		calls = 0;
		status = small_files(9);
		done = status == 0;
		assert_true(done || WTERMSIG(status) == SIGKILL);
		n = chain_of_all(&files);
		calls = kill_at; /* this one is not killed */
		assert_int_equal(small_files(9), 0);
		assert_true(chain_of_all(&files) >= n + 9);
		assert_int_equal(access(AUDIT_NEXT, F_OK), -1);
		assert_int_equal(system("rm -f audit*"), 0);
	}
	assert_true(kill_at > 20);
	kill_at = 0;
}

static void
removed_file_leaves_its_last_hash_in_a_line(void **state)
{
	char name[AUDIT_CLOSED_MAX], want[256], head[65];
	int files;

	(void)state;
	keep = kill_at = 0;
	for (files = 0; files == 0; chain_of_all(&files))
		assert_int_equal(small_files(1), 0);
	memset(prev, '0', 64);
	seq = 0;
	chain_on(audit_closed_name(name, 1), NULL, NULL, 0);
	strcpy(head, prev);
	keep = 1;
	for (int i = 0; i < 10 && access(name, F_OK) == 0; i++)
		assert_int_equal(small_files(1), 0);
	assert_int_equal(access(name, F_OK), -1);
	snprintf(want, sizeof(want),
	    "grep -q '{\"action\":\"removed\",\"target\":\"%s\",\"upto\":%d,\"head\":\"%s\"' "
	    "audit-*.log audit.log",
	    name, (int)seq, head);
	assert_int_equal(system(want), 0);
	assert_int_equal(system("test $(ls audit-*.log | wc -l) = 1"), 0);
}

static void
old_lines_without_a_number_are_gone_on_with(void **state)
{
	char line[256] = "{\"action\":\"create\",\"prev\":\"";
	FILE *f = fopen(AUDIT_FILE, "w");
	char head[65];
	uint8_t digest[32];

	(void)state;
	keep = kill_at = 0;
	memset(line + strlen(line), '0', 64);
	strcat(line, "\"}");
	fprintf(f, "%s\n", line);
	fclose(f);
	SHA256((unsigned char *)line, strlen(line), digest);
	hex_encode(digest, 32, head);
	some(1);
	snprintf(line, sizeof(line), "grep -q ',\"seq\":1,\"prev\":\"%s\"}$' audit.log", head);
	assert_int_equal(system(line), 0);
}

static void
set_the_clock(void *arg)
{
	static const int64_t steps[] = {0, 30, 3600, 3600, -86400, -86350};

	(void)arg;
	audit_open(&plain, NULL);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		ahead_s = steps[i];
		audit_tick();
	}
}

static void
clock_that_jumps_has_a_line_and_the_chain_goes_on(void **state)
{
	(void)state;
	assert_int_equal(forked_run(set_the_clock, NULL).status, 0);
	assert_int_equal(chain(NULL, NULL, 0), 2);
	assert_int_equal(system("grep -q '\"action\":\"clock\",\"jump_us\":35[67]' audit.log"), 0);
	assert_int_equal(
	    system("grep -q '\"action\":\"clock\",\"jump_us\":-\\(8999\\|9000\\)' audit.log"), 0);
	some(1);
	assert_int_equal(chain(NULL, NULL, 0), 3);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(chain_goes_on_over_restarts, setup, teardown),
	    cmocka_unit_test_setup_teardown(
		torn_last_line_becomes_a_recovered_entry, setup, teardown),
	    cmocka_unit_test_setup_teardown(
		flood_of_refusals_is_ten_lines_and_a_summary, setup, teardown),
	    cmocka_unit_test_setup_teardown(each_reason_of_a_flood_has_a_summary, setup, teardown),
	    cmocka_unit_test_setup_teardown(
		full_disk_tears_no_line_and_the_next_one_tells, setup, teardown),
	    cmocka_unit_test_setup_teardown(
		rotation_keeps_the_chain_and_every_line, setup, teardown),
	    cmocka_unit_test_setup_teardown(
		rotation_killed_before_any_step_loses_nothing_and_goes_on, setup, teardown),
	    cmocka_unit_test_setup_teardown(
		removed_file_leaves_its_last_hash_in_a_line, setup, teardown),
	    cmocka_unit_test_setup_teardown(
		clock_that_jumps_has_a_line_and_the_chain_goes_on, setup, teardown),
	    cmocka_unit_test_setup_teardown(
		old_lines_without_a_number_are_gone_on_with, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
