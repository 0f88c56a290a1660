// link: apid/head.o apid/auth.o common/base64.o apid/browser.o -lcrypto
/* The head of a request: what is accepted keeps its promises, whatever the bytes are. */
#include <stdlib.h>
#include <string.h>

#include "apid/auth.h"
#include "apid/browser.h"

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

static void
check_slice(struct slice s, const char *p, size_t n)
{
	size_t i;

	if (s.p == NULL)
		return;
	if (s.p < p || s.p > p + n || s.n > (size_t)(p + n - s.p))
		abort();
	for (i = 0; i < s.n; i++) {
		if (s.p[i] == '\r' || s.p[i] == '\n' || s.p[i] == '\0')
			abort();
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct browser_policy policy = {
	    1, "a, sandbox.example:8443", "https://page.example, http://localhost:3000"};
	struct head h;
	const char *why = NULL, *p = (const char *)data;
	uint8_t digest[32];
	int i;

	if (head_parse(p, n, &h, &why) != 0) {
		if (why == NULL)
			abort();
		return 0;
	}
	check_slice(h.target, p, n);
	for (i = 0; i < FIELDS; i++)
		check_slice(h.field[i], p, n);
	if (h.target.n == 0 || h.target.n > TARGET_MAX || h.target.p[0] != '/' || h.minor > 1)
		abort();
	if (h.target.n > 1 && h.target.p[1] == '/')
		abort();
	if (memmem(p, n - 2, "\r\n\r\n", 4) != NULL)
		abort(); /* an empty line within the head */
	if (h.chunked && (h.has_length || h.minor == 0))
		abort();
	if ((h.chunked || h.length > 0) && h.method != METHOD_POST && h.method != METHOD_PUT &&
	    h.method != METHOD_PATCH && !(h.stray && h.close && h.method != METHOD_HEAD))
		abort();
	if (h.minor == 1 && h.field[FIELD_HOST].p == NULL)
		abort();
	auth_key(&h, digest);
	browser_check(&h, &policy);
	return 0;
}
