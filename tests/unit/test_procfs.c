/* What the server says of its programs' memory and descriptors, beside what this process knows of
 * itself. */
// link: common/procfs.o
#include "tests/unit/forked.h"

#include <sys/mman.h>
#include <sys/wait.h>

#include "common/procfs.h"

#define MORE (32 * 1024 * 1024)

static void
memory_is_what_is_resident_in_bytes(void **state)
{
	int64_t before = procfs_memory(getpid()), now;
	char *p = mmap(NULL, MORE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_ptr_not_equal(p, MAP_FAILED);
	assert_true(before > 0);
	memset(p, 1, MORE);
	now = procfs_memory(getpid());
	assert_in_range(now - before, MORE / 2, MORE + MORE / 2);
	munmap(p, MORE);
}

static void
descriptors_are_those_that_are_open(void **state)
{
	int64_t before = procfs_descriptors(getpid());
	int fds[3];

	(void)state;
	assert_true(before > 1); /* what it logs to, and what it looks with */
	for (size_t i = 0; i < 3; i++)
		assert_true((fds[i] = dup(STDERR_FILENO)) != -1);
	assert_int_equal(procfs_descriptors(getpid()), before + 3);
	for (size_t i = 0; i < 3; i++)
		close(fds[i]);
	assert_int_equal(procfs_descriptors(getpid()), before);
}

static void
of_a_process_that_is_not_there_nothing_is_known(void **state)
{
	pid_t pid = fork();

	(void)state;
	if (pid == 0)
		_exit(0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(procfs_memory(pid), -1);
	assert_int_equal(procfs_descriptors(pid), -1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(memory_is_what_is_resident_in_bytes),
	    cmocka_unit_test(descriptors_are_those_that_are_open),
	    cmocka_unit_test(of_a_process_that_is_not_there_nothing_is_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
