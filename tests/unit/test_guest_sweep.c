/* Trees that are deeper than there are descriptors are removed all the same. */
// link: sandbox-init/sweep.o
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "sandbox-init/sweep.h"

#define DEEP 3000

static void
make_file(const char *name)
{
	int fd = open(name, O_CREAT | O_WRONLY, 0600);

	assert_true(fd >= 0);
	close(fd);
}

static void
test_tree_of_any_depth_is_removed_and_nothing_beside_it(void **state)
{
	char top[] = "/tmp/sweep-XXXXXX";
	struct rlimit few = {16, 16}, old;
	int i, dir;

	(void)state;
	assert_non_null(mkdtemp(top));
	dir = open(top, O_RDONLY | O_DIRECTORY);
	assert_true(dir >= 0 && fchdir(dir) == 0);
	make_file("beside");
	assert_int_equal(mkdir("tree", 0755), 0);
	assert_int_equal(symlink("../beside", "tree/link"), 0);
	assert_int_equal(symlink("..", "tree/up"), 0);
	assert_int_equal(mkdir("tree/shut", 0755), 0);
	make_file("tree/shut/file");
	assert_int_equal(mkdir("tree/.agent-sandbox-sweep-0", 0755), 0);
	make_file("tree/.agent-sandbox-sweep-0/f");
	assert_int_equal(chmod("tree/shut", 0), 0);
	assert_int_equal(chdir("tree"), 0);
	for (i = 0; i < DEEP; i++) {
		assert_int_equal(mkdir("d", i % 7 ? 0755 : 0700), 0);
		assert_int_equal(chdir("d"), 0);
		if (i % 100 == 0)
			make_file("f");
	}
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	few.rlim_max = old.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	sweep(dir, "tree");
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_int_equal(fchdir(dir), 0);
	assert_int_equal(access("tree", F_OK), -1);
	assert_int_equal(access("beside", F_OK), 0);
	sweep(dir, "beside");
	sweep(dir, "not there");
	close(dir);
	assert_int_equal(rmdir(top), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_tree_of_any_depth_is_removed_and_nothing_beside_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
