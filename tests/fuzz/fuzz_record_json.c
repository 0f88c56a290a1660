/* Records of sandboxes and snapshots, and instance.json, as they may lie on disk. */
// link: managerd/tenant.o common/keys_file.o common/keys_line.o common/keys_net.o
// link: common/egress.o common/egress_list.o common/egress_range.o
// link: managerd/record.o managerd/box.o managerd/snap.o managerd/spec.o managerd/store.o -ljansson
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "managerd/box.h"
#include "managerd/record.h"
#include "managerd/snap.h"

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct box *box = box_new(0xabc);
	struct snap *snap = snap_new(0xabc);
	char *text;

	if (record_box_decode((const char *)data, size, box) == 0) {
		text = record_box_encode(box); /* what was read can be written */
		free(text);
	}
	if (record_snap_decode((const char *)data, size, snap) == 0) {
		text = record_snap_encode(snap);
		free(text);
	}
	snap_free(snap);
	box_free(box);
	return 0;
}
