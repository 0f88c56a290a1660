/* What may be signed: the two things that a TLS server signs in a handshake, and nothing that could
 * mean anything elsewhere (keyd.h). */
#include <string.h>

#include "keyd/keyd.h"

#define RANDOMS 64 /* of client and server */
#define NAMED_CURVE 3

static const char context[] = "TLS 1.3, server CertificateVerify"; /* its NUL belongs to it */

static const struct {
	uint16_t id; /* NamedCurve */
	uint8_t point;
	uint8_t uncompressed; /* the point begins with 4 */
} curves[] = {{23, 65, 1}, {24, 97, 1}, {29, 32, 0}};

/* Blanks, the context, the hash of the handshake so far: SHA-256 or SHA-384. */
static int
is_certificate_verify(const uint8_t *p, size_t n)
{
	const size_t blanks = 64, head = blanks + sizeof(context);

	if (n != head + 32 && n != head + 48)
		return 0;
	for (size_t i = 0; i < blanks; i++)
		if (p[i] != ' ')
			return 0;
	return memcmp(p + blanks, context, sizeof(context)) == 0;
}

/* Both randoms, a curve by name, a point of its size. */
static int
is_key_exchange(const uint8_t *p, size_t n)
{
	const uint8_t *params = p + RANDOMS;
	unsigned id;

	if (n < RANDOMS + 4 || params[0] != NAMED_CURVE)
		return 0;
	id = (unsigned)params[1] << 8 | params[2];
	for (size_t i = 0; i < sizeof(curves) / sizeof(curves[0]); i++)
		if (curves[i].id == id)
			return params[3] == curves[i].point &&
			       n == RANDOMS + 4 + (size_t)curves[i].point &&
			       (!curves[i].uncompressed || params[4] == 4);
	return 0;
}

enum input
input_kind(const uint8_t *p, size_t n)
{
	if (is_certificate_verify(p, n))
		return INPUT_TLS13;
	return is_key_exchange(p, n) ? INPUT_TLS12 : INPUT_NONE;
}
