/* What the self-test found: lines of the program inside, which are hostile bytes, held against the
 * table of checks; and the sum of all. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent-sandbox/options.h"
#include "agent-sandbox/selftest.h"
#include "agent-sandbox/show.h"
#include "common/log.h"
#include "selftest/checks.h"

#define EVIDENCE_MAX 8192

#define CHECK_ROW(name, modes, what) {#name, modes},
static const struct {
	const char *name;
	unsigned modes;
} checks[] = {CHECKS(CHECK_ROW)};
#define CHECKS_N (sizeof(checks) / sizeof(checks[0]))

static const char *const words[] = {"ok", "BROKEN", "skip", "refused"};
static const char *mode = "";
static size_t sums[sizeof(words) / sizeof(words[0])];
static int lacks_target;
static json_t *all; /* with --json */

void
report_mode(const char *name)
{
	mode = name;
}

void
report(enum selftest_result result, const char *name, const char *evidence)
{
	char line[4 * EVIDENCE_MAX];

	sums[result]++;
	if (result == SELFTEST_SKIP && strstr(evidence, "give --target") != NULL)
		lacks_target = 1;
	show_line(evidence, line, sizeof(line));
	if (!common_options.json) {
		printf("%-7s %-7s %-18s %s\n", words[result], mode, name, line);
		fflush(stdout);
		return;
	}
	if (all == NULL)
		all = json_array();
	json_array_append_new(all, json_pack("{ss ss ss ss}", "mode", mode, "check", name, "result",
				       words[result], "evidence", line));
}

void
reportf(enum selftest_result result, const char *name, const char *fmt, ...)
{
	char text[EVIDENCE_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	report(result, name, text);
}

int
report_wants(const char *name)
{
	for (size_t i = 0; i < selftest.only.n; i++)
		if (strcmp(selftest.only.v[i], name) == 0)
			return 1;
	return selftest.only.n == 0;
}

int
report_knows(const char *name)
{
	static const char *const outside[] = {"answer", "key", "gone"};
	size_t i;

	for (i = 0; i < CHECKS_N; i++)
		if (strcmp(checks[i].name, name) == 0)
			return 1;
	for (i = 0; i < sizeof(outside) / sizeof(outside[0]); i++)
		if (strcmp(outside[i], name) == 0)
			return 1;
	return 0;
}

/* "WORD NAME EVIDENCE". The row that it is about, or CHECKS_N. */
static size_t
take_line(char *line, unsigned bit, enum selftest_result *result, const char **evidence)
{
	char *name = strchr(line, ' '), *text = name != NULL ? strchr(name + 1, ' ') : NULL;
	size_t i;

	if (text == NULL)
		return CHECKS_N;
	*name++ = *text++ = '\0';
	for (i = 0; i < CHECKS_N; i++)
		if (strcmp(checks[i].name, name) == 0 && (checks[i].modes & bit) != 0)
			break;
	for (*result = SELFTEST_OK; *result < SELFTEST_REFUSED; (*result)++)
		if (strcmp(words[*result], line) == 0)
			break;
	*evidence = text;
	return *result < SELFTEST_REFUSED ? i : CHECKS_N;
}

void
report_lines(unsigned bit, const char *output)
{
	char *copy = strdup(output), *rest = copy, *line;
	int said[CHECKS_N] = {0};
	enum selftest_result result;
	const char *evidence;
	size_t i;

	if (copy == NULL)
		fatal("strdup");
	while ((line = strsep(&rest, "\n")) != NULL) {
		if (*line == '\0')
			continue;
		i = take_line(line, bit, &result, &evidence);
		if (i < CHECKS_N && said[i]++ == 0)
			report(result, checks[i].name, evidence);
		else
			reportf(SELFTEST_BROKEN, "output", "a line that is no check's: %s", line);
	}
	for (i = 0; i < CHECKS_N; i++)
		if ((checks[i].modes & bit) != 0 && report_wants(checks[i].name) && !said[i])
			report(SELFTEST_BROKEN, checks[i].name, "nothing was said about it");
	free(copy);
}

int
report_end(void)
{
	int needs = lacks_target && !selftest.offline;
	int ok =
	    sums[SELFTEST_BROKEN] == 0 && sums[SELFTEST_OK] + sums[SELFTEST_REFUSED] > 0 && !needs;

	if (common_options.json) {
		json_t *o =
		    json_pack("{sb so}", "ok", ok, "checks", all != NULL ? all : json_array());

		show_json(o);
		json_decref(o);
	} else {
		printf("\n%zu hold, %zu are broken, %zu were skipped.\n", sums[SELFTEST_OK],
		    sums[SELFTEST_BROKEN], sums[SELFTEST_SKIP]);
		if (needs)
			printf("What is said on a connection was not tried: give --target or "
			       "--offline.\n");
	}
	return show_end() != 0 || !ok;
}
