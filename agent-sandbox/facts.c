/*
 * Published weaknesses of the engine and its runtime that matter to sandboxes or to this program's
 * way of using the engine, with the first releases that have the fix. Distributions mend older
 * numbers too, so this is advice.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent-sandbox/doctor.h"

#define PARTS 3

struct fact {
	const char *component;
	const char *fixed; /* one release per line of releases that got the fix, oldest first */
	const char *id;
	const char *what;
};

static const struct fact facts[] = {
    {"engine", "29.5.1", "CVE-2026-41567, CVE-2026-41568, CVE-2026-42306",
	"the archive API can be led astray by a container that has run; this program uses it only "
	"on containers that "
	"never ran, and \"docker cp\" on a sandbox should not be used"},
    {"engine", "25.0.13 28.0.0", "CVE-2025-54410",
	"a firewalld reload removes the isolation between bridge networks, which matters to "
	"sandboxes with network"},
    {"engine", "23.0.15 25.0.6 26.1.5 27.1.1", "CVE-2024-41110",
	"authorization plugins can be bypassed by others who may use the engine; none is needed "
	"here"},
    {"engine", "23.0.11 25.0.5 26.0.0", "CVE-2024-29018",
	"containers without a way out can still make the host ask name servers, on internal "
	"networks; sandboxes use "
	"none or a bridge that is not internal"},
    {"engine", "20.10.18", "CVE-2022-36109",
	"supplementary groups of a container's user are set up wrongly"},
    {"engine", "20.10.14", "CVE-2022-24769", "containers start with inheritable capabilities"},
    {"engine", "20.10.9", "CVE-2021-41091",
	"the engine's data directory can be entered by local users"},
    {"runc", "1.2.8 1.3.3 1.4.0", "CVE-2025-31133, CVE-2025-52565, CVE-2025-52881",
	"races while a container is made let a crafted image write to the host's /proc: a way out "
	"of the sandbox"},
    {"runc", "1.1.12", "CVE-2024-21626",
	"a leaked descriptor lets a crafted image reach the host's files: a way out of the "
	"sandbox"},
    {"runc", "1.0.0", "CVE-2021-30465",
	"a race while mounting lets a container reach the host's files"},
};

/* Up to three numbers of "20.10.24+dfsg1"; what is missing is 0. Returns where they end. */
static const char *
parse(const char *s, long v[PARTS])
{
	char *end = (char *)(uintptr_t)s;

	memset(v, 0, PARTS * sizeof(*v));
	for (int i = 0; i < PARTS; i++) {
		v[i] = strtol(s, &end, 10);
		if (*end != '.')
			break;
		s = end + 1;
	}
	return end;
}

static int
compare(const long a[PARTS], const long b[PARTS])
{
	for (int i = 0; i < PARTS; i++)
		if (a[i] != b[i])
			return a[i] < b[i] ? -1 : 1;
	return 0;
}

int
facts_affected(const char *version, const char *fixed)
{
	long v[PARTS], f[PARTS] = {0};

	parse(version, v);
	if (v[0] == 0 && v[1] == 0 && v[2] == 0)
		return 0;
	while (*fixed != '\0') {
		fixed = parse(fixed, f);
		fixed += strspn(fixed, " ");
		if (v[0] == f[0] && v[1] == f[1])
			return compare(v, f) < 0;
	}
	return compare(v, f) < 0;
}

int
facts_tell(const char *component, const char *version)
{
	int n = 0;

	for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]); i++) {
		if (strcmp(facts[i].component, component) != 0 ||
		    !facts_affected(version, facts[i].fixed))
			continue;
		doctor_say(FINDING_WEAK, "%s %.32s: %s (fixed in %s): %s", component, version,
		    facts[i].id, facts[i].fixed, facts[i].what);
		n++;
	}
	return n;
}
