/* The verb audit: whether the audit log is whole, and what is in it. */
#include <stdio.h>
#include <string.h>

#include "agent-sandbox/audit.h"
#include "agent-sandbox/client.h"
#include "agent-sandbox/verb.h"
#include "common/ids.h"

struct audit_options audit_options = {.since_us = INT64_MIN, .lines = 10};
#define O audit_options

static const struct option_row rows[] = {
    {"file", 'f', OPTION_TEXT, &O.file, "FILE", "the settings of the server are in this file"},
    {"since", 0, OPTION_TEXT, &O.since, "TIME",
	"from then on: 2h (ago), or a date in UTC: 2027-01-31"},
    {"key", 0, OPTION_LIST, &O.keys, "KEY",
	"verify: key that must have signed, or its file; show: name of an API key"},
    {"sandbox", 0, OPTION_TEXT, &O.sandbox, "SANDBOX", "show: lines about this one"},
    {"action", 0, OPTION_TEXT, &O.action, "ACTION", "show: lines of this action"},
    {"lines", 'n', OPTION_WHOLE, &O.lines, "N", "tail: so many lines (else 10)"},
    {"follow", 'F', OPTION_FLAG, &O.follow, NULL, "tail: and those that come"},
    {0},
};
const struct usage usage_audit = {"audit", "verify | tail | show [LOG...]",
    "Checks the audit log, or shows what is in it.", rows, 1, -1, 0,
    "Without LOG: all files of the data directory, in their order. verify exits with 0 when every\n"
    "line is as it was written, else with 1, and names the first that is not.",
    1};

static const struct {
	const char *name;
	int (*run)(char **, size_t);
} verbs[] = {{"verify", audit_verify}, {"tail", audit_tail}, {"show", audit_show}};

/* "2h" ago, "2027-01-31" at its beginning, or a whole time. */
static int64_t
moment(const char *text)
{
	char day[TIME_TEXT_MAX];
	double seconds;
	int64_t us;

	snprintf(day, sizeof(day), "%.16sT00:00:00Z", text);
	if (options_seconds(text, &seconds) == 0)
		return time_wall_us() - (int64_t)(seconds * 1e6);
	if (time_parse(text, &us) == -1 && time_parse(day, &us) == -1)
		options_wrong(&usage_audit,
		    "--since: %s is neither a time such as 2h nor a date such as 2027-01-31", text);
	return us;
}

/* Options that the others have not. */
static void
check(const char *verb)
{
	int verify = strcmp(verb, "verify") == 0, tail = strcmp(verb, "tail") == 0;

	if ((verify || tail) && (O.sandbox != NULL || O.action != NULL))
		options_wrong(&usage_audit, "%s has neither --sandbox nor --action", verb);
	if (tail && O.keys.n > 0)
		options_wrong(&usage_audit, "tail has no --key");
	if (!tail && (O.follow || O.lines != 10))
		options_wrong(&usage_audit, "%s has neither --lines nor --follow", verb);
	if (!verify && !tail && O.keys.n > 1)
		options_wrong(&usage_audit, "show has one --key");
}

int
verb_audit(int argc, char **argv)
{
	int n;
	char **words = options_read(&usage_audit, argc, argv, &n);

	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		if (strcmp(words[0], verbs[i].name) != 0)
			continue;
		check(words[0]);
		if (O.since != NULL)
			O.since_us = moment(O.since);
		return verbs[i].run(words + 1, (size_t)n - 1);
	}
	options_wrong(&usage_audit, "%s: verify, tail or show is wanted", words[0]);
}
