// link: sessiond/args.o sessiond/buf.o
/* The ARGS record and a sandbox's environment. The block that comes out must be what proto/guest.h
 * says. */
#include <stdlib.h>
#include <string.h>

#include "proto/guest.h"
#include "sessiond/args.h"

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	uint32_t counts[2], strings = 0;
	struct buf out = {0};
	size_t env_len, i;

	if (n < 1)
		return 0;
	env_len = p[0] < n - 1 ? p[0] : n - 1;
	if (!args_env_valid((const char *)p + 1, env_len))
		env_len = 0;
	if (args_build(p + 1 + env_len, n - 1 - env_len, (const char *)p + 1, env_len, p[0] & 1,
		&out) == NULL) {
		memcpy(counts, buf_data(&out), sizeof(counts));
		for (i = sizeof(counts); i < buf_len(&out); i++)
			strings += buf_data(&out)[i] == '\0';
		if (strings != counts[0] + counts[1] + 1 ||
		    buf_data(&out)[buf_len(&out) - 1] != '\0' || buf_len(&out) > GUEST_ARGS_MAX)
			abort();
	}
	buf_free(&out);
	return 0;
}
