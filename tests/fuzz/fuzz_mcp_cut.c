// link: clients/mcp/cut.o clients/mcp/uri.o clients/api/text.o -ljansson
/*
 * Output of any bytes, in pieces: its text is UTF-8, not longer than the budget, whole if it can
 * be, and says what is missing. And the same bytes as the name of a resource, both ways.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "clients/api/text.h"
#include "clients/mcp/cut.h"
#include "clients/mcp/uri.h"

#define MAX_OUTPUT 1024

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

static void
check_utf8(const char *p, size_t n)
{
	uint32_t ch;
	size_t len;

	for (size_t i = 0; i < n; i += len)
		if ((len = text_char(p + i, n - i, &ch)) == 1 && ch == 0xfffd)
			abort();
}

static void
check_uri(const uint8_t *data, size_t size)
{
	char *text = strndup((const char *)data, size), *back;
	struct uri a, b;

	if (text == NULL)
		abort();
	if (uri_read(text, &a) == 0) {
		back = uri_write(a.id, a.path);
		if (uri_read(back, &b) == -1 || strcmp(a.id, b.id) != 0 ||
		    strcmp(a.path, b.path) != 0)
			abort();
		free(back);
	}
	free(text);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t step, budget, n, first, total = size > 2 ? size - 2 : 0;
	uint64_t omitted;
	struct cut c;
	char *out;

	check_uri(data, size);
	if (size <= 2)
		return 0;
	step = data[0] + (size_t)1;
	budget = MAX_OUTPUT - data[1];
	cut_init(&c, MAX_OUTPUT);
	for (size_t i = 2; i < size; i += step)
		cut_add(&c, (const char *)data + i, size - i < step ? size - i : step);
	out = cut_text(&c, budget, &n, &omitted);
	check_utf8(out, n);
	first = c.head_n + c.tail_n;
	if (n > budget || omitted > total || first > 3 * (size_t)MAX_OUTPUT ||
	    (total > budget && omitted == 0) || (n == 0 && total > 0))
		abort();
	free(out);
	cut_free(&c);
	return 0;
}
