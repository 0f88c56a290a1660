// link: apid/json_out.o common/base64.o -ljansson
/* Bytes into JSON text: always valid, the same however they are cut, and UTF-8 comes back as it
 * was. */
#include <event2/buffer.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "apid/json_out.h"
#include "common/base64.h"

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

static struct evbuffer *
escape(const uint8_t *p, size_t n, size_t step)
{
	struct evbuffer *out = evbuffer_new();
	struct utf8 u = {0};
	size_t part, total = 1;

	evbuffer_add(out, "\"", 1);
	for (; n > 0; n -= part, p += part) {
		part = n < step ? n : step;
		total += json_escape(out, &u, p, part);
		if (u.n > 3)
			abort();
	}
	total += json_escape_end(out, &u);
	if (total != evbuffer_get_length(out))
		abort();
	evbuffer_add(out, "\"", 1);
	return out;
}

static void
check_base64(const uint8_t *p, size_t n, size_t step)
{
	struct evbuffer *out = evbuffer_new();
	struct base64 b = {0};
	size_t at, part, len;
	char *back;

	for (at = 0; at < n; at += part) {
		part = n - at < step ? n - at : step;
		out_base64(out, &b, p + at, part);
	}
	out_base64_end(out, &b);
	len = evbuffer_get_length(out);
	if ((back = malloc(len + 1)) == NULL ||
	    base64_decode((char *)evbuffer_pullup(out, -1), len, 0, back, &len) == -1 || len != n ||
	    memcmp(back, p, n) != 0)
		abort();
	free(back);
	evbuffer_free(out);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct evbuffer *whole, *cut;
	json_t *v, *same;
	size_t step, len;

	if (n < 1)
		return 0;
	step = (size_t)data[0] + 1;
	data++;
	n--;
	whole = escape(data, n, n + 1);
	cut = escape(data, n, step);
	len = evbuffer_get_length(whole);
	if (len != evbuffer_get_length(cut) ||
	    memcmp(evbuffer_pullup(whole, -1), evbuffer_pullup(cut, -1), len) != 0)
		abort();
	v = json_loadb(
	    (char *)evbuffer_pullup(whole, -1), len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
	if (v == NULL)
		abort();
	if ((same = json_stringn((const char *)data, n)) != NULL && !json_equal(v, same))
		abort();
	json_decref(same);
	json_decref(v);
	check_base64(data, n, step);
	evbuffer_free(whole);
	evbuffer_free(cut);
	return 0;
}
