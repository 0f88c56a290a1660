/* The audit log: a chain that shows every change, whole after a torn line, bounded under a flood.
 */
// link: managerd/keys.o managerd/tenant.o common/keys_file.o common/keys_line.o common/keys_net.o
// link: managerd/audit.o -ljansson -lcrypto
#include "tests/unit/forked.h"

#include <fcntl.h>
#include <jansson.h>
#include <openssl/sha.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "common/ids.h"
#include "managerd/audit.h"
#include "managerd/keys.h"
#include "managerd/request.h"
#include "managerd/tenant.h"

static char dir[64];

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
	(void)state;
	unlink(AUDIT_FILE);
	return rmdir(dir);
}

/* Checks the chain, and returns the number of lines; the last one's member in *last. */
static int
chain(const char *member, char *last, size_t size)
{
	FILE *f = fopen(AUDIT_FILE, "r");
	char line[AUDIT_LINE_MAX + 2], prev[65];
	uint8_t digest[32];
	json_t *entry;
	int n = 0;

	memset(prev, '0', 64);
	prev[64] = '\0';
	assert_non_null(f);
	while (fgets(line, sizeof(line), f) != NULL) {
		size_t len = strlen(line);

		assert_int_equal(line[len - 1], '\n');
		entry = json_loadb(line, len, 0, NULL);
		assert_non_null(entry);
		assert_string_equal(json_string_value(json_object_get(entry, "prev")), prev);
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

static void
write_some(void *arg)
{
	struct request rq = {.action = "create",
	    .peer = "192.0.2.1:1",
	    .request_id = "r\xff\"\n",
	    .key_name = "ci",
	    .tenant = tenant_get("acme")};
	int i;

	audit_open(NULL);
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
	audit_open(NULL);
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
	audit_open(NULL);
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
	char line[4096], last[4096] = "";
	FILE *f;

	(void)state;
	assert_int_equal(forked_run(write_full, NULL).status, 0);
	assert_true(chain(NULL, NULL, 0) < 20);
	f = fopen(AUDIT_FILE, "r");
	while (fgets(line, sizeof(line), f) != NULL)
		strcpy(last, line);
	fclose(f);
	assert_non_null(strstr(last, "\"lost\":"));
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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
