/* The table of reasons as texts; see reason.h. */
#include "egressd/reason.h"

#include <stdio.h>
#include <string.h>

#define REASON_X_ROW(name, verdict, text) {verdict, text},

static const struct {
	enum dial_verdict verdict;
	const char *text;
} table[] = {REASONS(REASON_X_ROW)};

enum dial_verdict
reason_verdict(enum reason r)
{
	return table[r].verdict;
}

int
reason_text(enum reason r, const char *address, const char *kind, char out[DIAL_TEXT_MAX])
{
	if (r == REASON_NOT_PUBLIC)
		return snprintf(out, DIAL_TEXT_MAX, "%s is not public (%s)", address, kind);
	return snprintf(out, DIAL_TEXT_MAX, "%s", table[r].text);
}
