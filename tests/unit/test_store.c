/* The data directory: a write is whole or was not; records come back as they were; nonsense is
 * refused. */
// link: managerd/tenant.o common/keys_file.o common/keys_line.o common/keys_net.o
// link: common/egress.o common/egress_list.o common/egress_range.o
// link: managerd/store.o managerd/record.o managerd/box.o managerd/snap.o managerd/spec.o -ljansson
#include "tests/unit/forked.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "managerd/box.h"
#include "managerd/record.h"
#include "managerd/snap.h"
#include "managerd/store.h"

static char dir[64];

static int
setup(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/store-XXXXXX");
	return mkdtemp(dir) == NULL || chdir(dir) == -1 ? -1 : 0;
}

static int
teardown(void **state)
{
	char cmd[128];

	(void)state;
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	return chdir("/") == -1 ? -1 : system(cmd);
}

static void
write_fails(void *arg)
{
	struct rlimit limit = {10, RLIM_INFINITY};

	(void)arg;
	signal(SIGXFSZ, SIG_IGN);
	store_open();
	if (store_write(STORE_SANDBOXES, "x.json", "old", 3) == -1)
		_exit(1);
	setrlimit(RLIMIT_FSIZE, &limit);
	if (store_write(STORE_SANDBOXES, "x.json", "a longer content", 16) == 0)
		_exit(2);
	if (errno != EFBIG)
		_exit(3);
}

static void
write_that_fails_leaves_the_old_content(void **state)
{
	struct stat st;

	(void)state;
	assert_int_equal(forked_run(write_fails, NULL).status, 0);
	assert_int_equal(stat("sandboxes/x.json", &st), 0);
	assert_int_equal(st.st_size, 3);
	assert_int_equal(stat("sandboxes/x.json.tmp", &st), -1);
}

static void
snapshot_files(void *arg)
{
	int fd;

	(void)arg;
	store_open();
	if ((fd = snapfile_begin(7)) == -1 || write(fd, "abc", 3) != 3 || snapfile_exists(7))
		_exit(1);
	if (snapfile_begin(7) != -1 || errno != EEXIST)
		_exit(2);
	if (snapfile_commit(7, 4) != -1 || errno != EIO)
		_exit(3);
	if (snapfile_commit(7, 3) == -1 || !snapfile_exists(7) || snapfile_open(7) == -1)
		_exit(4);
	if (snapfile_remove(7) == -1 || snapfile_exists(7) || snapfile_remove(7) == -1)
		_exit(5);
}

static void
snapshot_file_exists_only_when_it_is_whole(void **state)
{
	(void)state;
	assert_int_equal(forked_run(snapshot_files, NULL).status, 0);
}

static void
fill(struct spec *spec)
{
	spec->image = strdup("python:3.12-slim");
	spec->nano_cpus = 250000000;
	spec->memory_mb = 64;
	spec->pids_limit = 20;
	spec->read_only = 1;
	strings_add(&spec->env, "A=b\"\n\xc3\xa9=c", strlen("A=b\"\n\xc3\xa9=c"));
	strings_add(&spec->env, "E=", 2);
	strings_add(&spec->labels, "team", 4);
	strings_add(&spec->labels, "", 0);
}

static void
sandbox_record_comes_back_as_it_was(void **state)
{
	struct box *box = box_new(0xabc), *got;
	char *text;

	(void)state;
	fill(&box->spec);
	box->state = BOX_ROLLING_BACK;
	box->generation = 3;
	box->top = 5;
	memset(box->container, 'a', 64);
	box->created_us = 123;
	box->expires_us = 456;
	box->source = 0xdef;
	box->idem.given = 1;
	box->idem.key[3] = 9;
	box->idem.at_us = 77;
	text = record_box_encode(box);
	box_free(box);
	got = box_new(0xabc);
	assert_int_equal(record_box_decode(text, strlen(text), got), 0);
	assert_int_equal(got->state, BOX_ROLLING_BACK);
	assert_int_equal(got->generation, 3);
	assert_int_equal(got->top, 5);
	assert_int_equal(strlen(got->container), 64);
	assert_int_equal(got->expires_us, 456);
	assert_int_equal(got->source, 0xdef);
	assert_int_equal(got->idem.key[3], 9);
	assert_int_equal(got->spec.env.count, 2);
	assert_string_equal(got->spec.env.bytes, "A=b\"\n\xc3\xa9=c");
	assert_string_equal(spec_label(&got->spec, "team"), "");
	assert_null(spec_label(&got->spec, "tea"));
	box_free(got);
	got = box_new(0xabd);
	assert_int_equal(record_box_decode(text, strlen(text), got), -1);
	box_free(got);
	free(text);
}

static void
snapshot_record_comes_back_as_it_was(void **state)
{
	struct snap *snap = snap_new(5), *got;
	char *text;

	(void)state;
	fill(&snap->spec);
	snap->sandbox = 0xabc;
	snap->size_bytes = 1000;
	snap->stored_bytes = 10;
	snap->sha256[0] = 0xfe;
	snap->name = strdup("");
	text = record_snap_encode(snap);
	snap_free(snap);
	got = snap_new(5);
	assert_int_equal(record_snap_decode(text, strlen(text), got), 0);
	assert_string_equal(got->name, "");
	assert_int_equal(got->parent, 0);
	assert_int_equal(got->sandbox, 0xabc);
	assert_int_equal(got->sha256[0], 0xfe);
	snap_free(got);
	free(text);
}

/* Every prefix and every changed byte of a record: refused or read, never more. */
static void
damaged_records_are_refused(void **state)
{
	struct box *box = box_new(0xabc), *got;
	char *text;
	size_t i, len;

	(void)state;
	fill(&box->spec);
	text = record_box_encode(box);
	box_free(box);
	len = strlen(text);
	for (i = 0; i < len; i++) {
		got = box_new(0xabc);
		assert_int_equal(record_box_decode(text, i, got), -1);
		box_free(got);
		text[i] ^= 1;
		got = box_new(0xabc);
		record_box_decode(text, len, got);
		box_free(got);
		text[i] ^= 1;
	}
	free(text);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(
		write_that_fails_leaves_the_old_content, setup, teardown),
	    cmocka_unit_test_setup_teardown(
		snapshot_file_exists_only_when_it_is_whole, setup, teardown),
	    cmocka_unit_test(sandbox_record_comes_back_as_it_was),
	    cmocka_unit_test(snapshot_record_comes_back_as_it_was),
	    cmocka_unit_test(damaged_records_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
