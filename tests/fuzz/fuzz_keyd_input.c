/* What apid asks keyd to sign. What passes is one of the two things that a TLS server signs, to the
 * byte: it names nothing of the asker's choice but hashes, randoms and a point. */
// link: keyd/input.o
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "keyd/keyd.h"

#define LONGEST 200
#define RANDOMS 64

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

static const uint8_t verify[98] = "                                                                "
				  "TLS 1.3, server CertificateVerify";

/* How many of its bytes are fixed, from `at` on; with the point's first one for NIST's curves. */
static size_t
fixed_part(const uint8_t *p, size_t n, size_t *at)
{
	static const uint8_t heads[][5] = {{3, 0, 23, 65, 4}, {3, 0, 24, 97, 4}, {3, 0, 29, 32}};
	size_t len;

	if (memcmp(p, verify, sizeof(verify)) == 0 && (n == 130 || n == 146)) {
		*at = 0;
		return sizeof(verify);
	}
	*at = RANDOMS;
	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		len = i < 2 ? 5 : 4;
		if (n == RANDOMS + 4 + (size_t)heads[i][3] &&
		    memcmp(p + RANDOMS, heads[i], len) == 0)
			return len;
	}
	abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t more[LONGEST + 1] = {0};
	enum input kind = input_kind(data, size);
	size_t at, n;

	if (kind == INPUT_NONE)
		return 0;
	if (size < 100 || size > 165)
		abort();
	n = fixed_part(data, size, &at);
	if (kind != (at == 0 ? INPUT_TLS13 : INPUT_TLS12))
		abort();
	memcpy(more, data, size);
	for (size_t i = at; i < at + n; i++) {
		more[i] ^= 0x40;
		if (input_kind(more, size) != INPUT_NONE)
			abort();
		more[i] ^= 0x40;
	}
	for (size_t len = 0; len <= LONGEST; len++)
		if (len != size && input_kind(more, len) != INPUT_NONE &&
		    !(at == 0 && (len == 130 || len == 146)))
			abort();
	return 0;
}
