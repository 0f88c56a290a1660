/* The data socket's records that come with a CREATE. */
// link: managerd/create_input.o managerd/fds.o managerd/spec.o
#include <stdint.h>
#include <stdlib.h>

#include "managerd/create_input.h"
#include "proto/apid_managerd.h"

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct create_input in = {0};

	if (create_records(data, size, &in) == 0 &&
	    (in.env.count > ENV_MAX || in.labels.count > LABELS_MAX * 2 ||
		in.egress.count > EGRESS_ENTRIES_MAX))
		abort();
	create_input_clear(&in);
	return 0;
}
