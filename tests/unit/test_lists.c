/* managerd's lists of sandboxes and snapshots: oldest first, however many and in whatever order the
 * records are read. */
// link: managerd/tenant.o common/keys_file.o common/keys_line.o common/keys_net.o
// link: common/egress.o common/egress_list.o common/egress_range.o
// link: managerd/snap.o managerd/box.o managerd/record.o managerd/spec.o managerd/store.o
// link: common/image_ref.o -ljansson
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "managerd/box.h"
#include "managerd/snap.h"

#define MANY 150000 /* newest first: each put in its place would take minutes */
#define CPU_SECONDS 20

static void
many_snapshots_are_sorted_in_time(void **state)
{
	struct snap *snap, *next;
	int64_t last = -1;
	uint64_t last_id = 0;
	int i;

	(void)state;
	for (i = 0; i < MANY; i++) {
		snap = snap_new((uint64_t)i + 1);
		snap->created_us = (MANY - i) / 2; /* in pairs: then the id decides */
		snap_list_loaded(snap);
	}
	snap_sort();
	snap = snap_new(MANY + 1);
	snap->created_us = MANY / 4;
	snap_list(snap);
	i = 0;
	TAILQ_FOREACH_SAFE (snap, &snaps, order, next) {
		assert_true(
		    snap->created_us > last || (snap->created_us == last && snap->id > last_id));
		assert_ptr_equal(snap_find(snap->id), snap);
		last = snap->created_us;
		last_id = snap->id;
		i++;
	}
	assert_int_equal(i, MANY + 1);
	while ((snap = TAILQ_FIRST(&snaps)) != NULL)
		snap_free(snap);
	assert_int_equal(snap_count(), 0);
}

static void
many_sandboxes_are_sorted_in_time(void **state)
{
	struct box *box;
	int64_t last = -1;
	uint64_t last_id = 0;
	int i;

	(void)state;
	for (i = 0; i < MANY; i++) {
		box = box_new((uint64_t)i + 1);
		box->created_us = (MANY - i) / 2;
		box_list_loaded(box);
	}
	box_sort();
	box = box_new(MANY + 1);
	box->created_us = MANY / 4;
	box_list(box);
	i = 0;
	TAILQ_FOREACH (box, &boxes, order) {
		assert_true(
		    box->created_us > last || (box->created_us == last && box->id > last_id));
		last = box->created_us;
		last_id = box->id;
		i++;
	}
	assert_int_equal(i, MANY + 1);
	while ((box = TAILQ_FIRST(&boxes)) != NULL)
		box_free(box);
	assert_int_equal(box_count(), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(many_snapshots_are_sorted_in_time),
	    cmocka_unit_test(many_sandboxes_are_sorted_in_time),
	};
	const struct rlimit cpu = {CPU_SECONDS, CPU_SECONDS};

	if (setrlimit(RLIMIT_CPU, &cpu) == -1)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
