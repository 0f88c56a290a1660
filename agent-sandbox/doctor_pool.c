/* What the pool of a server that runs here did, as it says in its data directory. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jansson.h>

#include "agent-sandbox/data_file.h"
#include "agent-sandbox/doctor.h"
#include "common/pool_list.h"

#define REPORT_FILE "pool.json"
#define REPORT_MAX (1024 * 1024)

static long long
number_of(const json_t *object, const char *name)
{
	return (long long)json_integer_value(json_object_get(object, name));
}

static void
add(char *text, size_t size, const char *fmt, const char *name, long long n)
{
	size_t len = strlen(text);

	snprintf(text + len, size - len, fmt, name, n);
}

static void
say_report(const json_t *report)
{
	const json_t *image;
	json_t *reasons = json_object_get(report, "reasons"), *n;
	char text[768] = "", why[256] = "";
	const char *name;
	size_t i;

	json_array_foreach (json_object_get(report, "images"), i, image) {
		name = json_string_value(json_object_get(image, "image"));
		add(text, sizeof(text), " %.200s: %lld", name != NULL ? name : "?",
		    number_of(image, "ready"));
		add(text, sizeof(text), "%s of %lld ready,", "", number_of(image, "size"));
	}
	json_object_foreach (reasons, name, n) {
		add(why, sizeof(why), *why == '\0' ? " (%.20s %lld" : ", %.20s %lld", name,
		    (long long)json_integer_value(n));
	}
	doctor_say(FINDING_NOTE, "pool:%s %lld hits, %lld misses%s%s since the start", text,
	    number_of(report, "hits"), number_of(report, "misses"), why, *why == '\0' ? "" : ")");
}

/* Without one no server runs here, or it is not for this user's eyes. */
static void
read_report(const char *folder)
{
	char path[1024], *text = malloc(REPORT_MAX);
	json_t *report = NULL;
	ssize_t n = -1;

	snprintf(path, sizeof(path), "%s/%s", folder, REPORT_FILE);
	if (text != NULL)
		n = data_file_read(AT_FDCWD, path, O_NOFOLLOW, text, REPORT_MAX);
	if (n == -1 && errno == ELOOP)
		doctor_say(FINDING_FAIL, "%s: %s", path, data_file_error());
	if (n > 0 && (report = json_loadb(text, (size_t)n, 0, NULL)) != NULL)
		say_report(report);
	json_decref(report);
	free(text);
}

void
doctor_pool(const struct settings *s)
{
	long long asked = (long long)pool_asked(&s->c), kept = (long long)pool_kept(&s->c);

	if (asked == 0)
		doctor_say(FINDING_OK, "no sandboxes are kept ready (AGENT_SANDBOX_POOL is 0)");
	else if (kept < asked)
		doctor_say(FINDING_NOTE,
		    "AGENT_SANDBOX_POOL: %lld of %lld sandboxes are kept ready, since "
		    "AGENT_SANDBOX_POOL_MEMORY_MB has no room for more",
		    kept, asked);
	else
		doctor_say(
		    FINDING_OK, "AGENT_SANDBOX_POOL: %lld sandboxes are to be kept ready", kept);
	read_report(s->c.str[CFG_DATA_DIR]);
}
