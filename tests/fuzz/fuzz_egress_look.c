/* The first bytes of a connection to the outside. What passes for a name passes for no other, and
 * what is judged stays so judged, however much of it comes at once. */
// link: egressd/look.o egressd/tls.o egressd/http.o egressd/reason.o
// link: common/egress.o common/egress_list.o common/egress_range.o
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "egressd/look.h"

static const char *const names[] = {"example.com", "other.example", "1.2.3.4", "2600::1"};

static enum look_result
look(enum look how, const char *name, const uint8_t *p, size_t n)
{
	struct egress_host host;
	enum reason why = REASON_NONE;
	const char *what;
	enum look_result r;

	if (egress_host(name, strlen(name), &host, &what) == -1)
		abort();
	r = look_at(how, p, n, &host, 80, &why);
	if (r == LOOK_REFUSE && reason_verdict(why) != DIAL_REFUSED)
		abort();
	return r;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum look_result whole, part;
	unsigned passed;
	size_t n;

	if (size == 0 || size > LOOK_MAX)
		return 0;
	for (enum look how = LOOK_TLS; how <= LOOK_HTTP; how++) {
		passed = 0;
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
			passed += look(how, names[i], data, size) == LOOK_PASS;
		/* On 443 all pass with what is not TLS; and every address with a hello for none. */
		if (how == LOOK_HTTP && passed > 2)
			abort();
		whole = look(how, names[0], data, size);
		for (n = 1; n < size && n < 600; n += 1 + n / 8)
			if ((part = look(how, names[0], data, n)) != LOOK_MORE) {
				if (part != whole)
					abort();
				break;
			}
	}
	return 0;
}
