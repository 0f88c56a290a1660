// link: clients/api/judge.o clients/api/lines.o clients/api/event.o clients/api/text.o agent-sandbox/show.o
// link: -lcurl -ljansson
/*
 * What a strange server sends: the first byte is the status and how the rest is cut into pieces.
 * Whatever it is, what is told of it is one line of UTF-8 that a terminal does not obey.
 */
#include <stdlib.h>
#include <string.h>

#include "agent-sandbox/show.h"
#include "clients/api/event.h"
#include "clients/api/judge.h"
#include "clients/api/lines.h"
#include "clients/api/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

static void
check_line(const char *text)
{
	size_t n = strlen(text), len;
	uint32_t c;

	for (; n > 0; text += len, n -= len) {
		len = text_char(text, n, &c);
		if (text_is_unsafe(c) || (c == 0xfffd && len == 1))
			abort();
	}
}

static int
on_line(void *arg, const char *line, size_t n)
{
	size_t *sum = arg;
	json_t *event, *same;

	if (line == NULL)
		return 0;
	event = event_read(line, n);
	same = json_loadb(line, n, JSON_ALLOW_NUL, NULL);
	if (n == 0 || n > 64 || memchr(line, '\n', n) != NULL)
		abort();
	/* The short way gives what the parser would. */
	if ((event == NULL) != (same == NULL) || (event != NULL && !json_equal(event, same)))
		abort();
	json_decref(event);
	json_decref(same);
	*sum += n;
	return 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const int statuses[] = {200, 201, 204, 302, 400, 401, 404, 429, 502};
	struct judge_head h = {"http://h", NULL, NULL, 0, 0, 0};
	struct api_error e = {0};
	struct lines lines;
	size_t piece, sum = 0;
	char shown[256], *text;

	if (size < 1)
		return 0;
	h.status = statuses[data[0] % 9];
	piece = data[0] / 9 + 1;
	data++, size--;
	if ((text = malloc(size + 1)) == NULL)
		abort();
	memcpy(text, data, size);
	text[size] = '\0';
	h.type = h.location = text;
	judge_answer(&h, WANT_JSON, &e);
	check_line(e.text);
	judge_refusal(&h, text, size, &e);
	check_line(e.text);
	check_line(e.code);
	check_line(show_bytes(text, size, shown, sizeof(shown)));
	lines_init(&lines, 64);
	for (size_t at = 0; at < size; at += piece)
		if (lines_feed(&lines, text + at, size - at < piece ? size - at : piece, on_line,
			&sum) != 0)
			break;
	lines_end(&lines, on_line, &sum);
	if (sum > size)
		abort();
	lines_free(&lines);
	free(text);
	return 0;
}
