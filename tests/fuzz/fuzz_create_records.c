/* The data socket's records that come with a CREATE. */
// link: managerd/create_input.o managerd/fds.o managerd/spec.o
#include <stdint.h>
#include <stdlib.h>

#include "managerd/create.h"
#include "proto/apid_managerd.h"

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct strings env = {0}, labels = {0};

	if (create_records(data, size, &env, &labels) == 0 &&
	    (env.count > ENV_MAX || labels.count > LABELS_MAX * 2))
		abort();
	strings_clear(&env);
	strings_clear(&labels);
	return 0;
}
