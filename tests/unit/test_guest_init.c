/* The pure parts of sandbox-init: argument block, PATH, ranges, names in archives, texts of /proc.
 */
// link: sandbox-init/args.o sandbox-init/names.o sandbox-init/cgroup.o sandbox-init/procs.o
// link: sandbox-init/mem.o sandbox-init/links.o
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-init/args.h"
#include "sandbox-init/cgroup.h"
#include "sandbox-init/links.h"
#include "sandbox-init/names.h"
#include "sandbox-init/procs.h"

static const uint8_t block[] = "\2\0\0\0\1\0\0\0a\0\0PATH=:x::/y\0/w";

static void
argument_block_is_taken_apart(void **state)
{
	uint8_t copy[sizeof(block)];
	struct args a;
	size_t n;

	(void)state;
	memcpy(copy, block, sizeof(block));
	assert_int_equal(args_parse(copy, sizeof(block), &a), 0);
	assert_string_equal(a.argv[0], "a");
	assert_string_equal(a.argv[1], "");
	assert_null(a.argv[2]);
	assert_string_equal(a.envp[0], "PATH=:x::/y");
	assert_null(a.envp[1]);
	assert_string_equal(a.workdir, "/w");
	assert_string_equal(a.path, ":x::/y");
	free(a.argv);
	for (n = 0; n < sizeof(block); n++)
		assert_int_equal(args_parse(copy, n, &a), -1);
}

static void
argument_block_without_a_command_or_with_more_is_refused(void **state)
{
	uint8_t copy[sizeof(block) + 1] = {0};
	struct args a;

	(void)state;
	memcpy(copy, block, sizeof(block));
	assert_int_equal(args_parse(copy, sizeof(copy), &a), -1);
	copy[0] = 0;
	assert_int_equal(args_parse(copy, sizeof(block), &a), -1);
	memset(copy, 0xff, 8);
	assert_int_equal(args_parse(copy, sizeof(block), &a), -1);
}

static void
path_is_walked_in_order(void **state)
{
	const char *path = ":x::/y/long", *want[] = {"./p", "x/p", "./p"};
	char file[6];
	size_t i;

	(void)state;
	for (i = 0; i < 3; i++) {
		assert_int_equal(args_candidate(&path, "p", file, sizeof(file)), 1);
		assert_string_equal(file, want[i]);
	}
	assert_int_equal(args_candidate(&path, "p", file, sizeof(file)), -1);
	assert_int_equal(args_candidate(&path, "p", file, sizeof(file)), 0);
}

static void
names_are_brought_to_one_form_or_refused(void **state)
{
	char out[16];

	(void)state;
	assert_null(names_clean("./a//b/./c/", out, sizeof(out)));
	assert_string_equal(out, "a/b/c");
	assert_null(names_clean("./", out, sizeof(out)));
	assert_string_equal(out, "");
	assert_null(names_clean("..a/b..", out, sizeof(out)));
	assert_non_null(names_clean("/a", out, sizeof(out)));
	assert_non_null(names_clean("..", out, sizeof(out)));
	assert_non_null(names_clean("a/../b", out, sizeof(out)));
	assert_non_null(names_clean("a/..", out, sizeof(out)));
	assert_non_null(names_clean("0123456789abcdef", out, sizeof(out)));
}

static void
links_that_lead_out_are_recognised(void **state)
{
	(void)state;
	assert_int_equal(names_leads_out(0, "l", "a/b"), 0);
	assert_int_equal(names_leads_out(0, "l", ".."), 1);
	assert_int_equal(names_leads_out(1, "l", ".."), 0);
	assert_int_equal(names_leads_out(0, "d/l", "../x"), 0);
	assert_int_equal(names_leads_out(0, "d/l", "../../x"), 1);
	assert_int_equal(names_leads_out(0, "l", "a/../../workspace"), 1);
	assert_int_equal(names_leads_out(0, "l", "/workspace/x"), 0);
	assert_int_equal(names_leads_out(0, "l", "/workspace/../etc"), 1);
	assert_int_equal(names_leads_out(0, "l", "/workspaces"), 1);
	assert_int_equal(names_leads_out(3, "l", "/etc"), 1);
	assert_int_equal(names_leads_out(-1, "l", "/workspace/x"), 1);
}

static void
oom_kills_are_read_from_both_versions(void **state)
{
	(void)state;
	assert_int_equal(cgroup_parse("low 0\nhigh 0\nmax 9\noom 3\noom_kill 2\n"), 2);
	assert_int_equal(cgroup_parse("oom_kill_disable 0\nunder_oom 0\noom_kill 7\n"), 7);
	assert_int_equal(cgroup_parse("oom_kill_disable 1\n"), 0);
	assert_int_equal(cgroup_parse(""), 0);
}

static void
process_name_cannot_forge_its_state(void **state)
{
	pid_t ppid;
	char st;

	(void)state;
	assert_int_equal(procs_parse_stat("5 (a) T 1 (x) S 77 5 5", &st, &ppid), 0);
	assert_int_equal(st, 'S');
	assert_int_equal(ppid, 77);
	assert_int_equal(procs_parse_stat("5 (a", &st, &ppid), -1);
	assert_int_equal(procs_parse_stat("5 (a) S", &st, &ppid), -1);
	assert_int_equal(procs_parse_stat("5 (a) S x", &st, &ppid), -1);
}

static void
descendants_are_found_at_any_depth_and_order(void **state)
{
	struct proc l[] = {{9, 4, 'S', 0}, {4, 7, 'S', 0}, {7, 2, 'S', 0}, {2, 1, 'S', 0},
	    {3, 1, 'S', 0}, {8, 3, 'S', 0}};
	size_t i, n = sizeof(l) / sizeof(l[0]);

	(void)state;
	procs_mark_descendants(l, n, 2);
	for (i = 0; i < n; i++)
		assert_int_equal(l[i].mark, l[i].pid == 7 || l[i].pid == 4 || l[i].pid == 9);
}

static void
first_name_of_a_file_is_remembered(void **state)
{
	static struct links links; /* as in the worker, whose end is what frees them */
	struct stat st = {.st_dev = 5};
	char name[32];
	int i;

	(void)state;
	for (i = 0; i < 3000; i++) {
		st.st_ino = (ino_t)i * 256;
		snprintf(name, sizeof(name), "n%d", i);
		assert_null(links_seen(&links, &st, name));
	}
	for (i = 0; i < 3000; i++) {
		st.st_ino = (ino_t)i * 256;
		snprintf(name, sizeof(name), "n%d", i);
		assert_string_equal(links_seen(&links, &st, "other"), name);
	}
	st.st_dev = 6;
	assert_null(links_seen(&links, &st, "elsewhere"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(argument_block_is_taken_apart),
	    cmocka_unit_test(argument_block_without_a_command_or_with_more_is_refused),
	    cmocka_unit_test(path_is_walked_in_order),
	    cmocka_unit_test(names_are_brought_to_one_form_or_refused),
	    cmocka_unit_test(links_that_lead_out_are_recognised),
	    cmocka_unit_test(oom_kills_are_read_from_both_versions),
	    cmocka_unit_test(process_name_cannot_forge_its_state),
	    cmocka_unit_test(descendants_are_found_at_any_depth_and_order),
	    cmocka_unit_test(first_name_of_a_file_is_remembered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
