/* The key file, as the server would judge it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent-sandbox/doctor.h"
#include "common/ids.h"
#include "common/keys_file.h"

#define SETTING "AGENT_SANDBOX_KEYS_FILE"
#define SOON_S (INT64_C(30) * 86400)

static void
judge(const char *path, const struct keys_file *keys)
{
	int64_t now = time_wall_us() / 1000000;

	doctor_say(FINDING_OK, "key file %s: %zu keys", path, keys->count);
	for (size_t i = 0; i < keys->count; i++) {
		const struct keys_key *k = &keys->keys[i];

		if (k->expires_s <= now)
			doctor_say(FINDING_NOTE, "key %s (line %u) is over: it opens nothing",
			    k->name, k->line);
		else if (k->expires_s != KEYS_NEVER && k->expires_s - now < SOON_S)
			doctor_say(FINDING_WEAK, "key %s (line %u) expires in %lld days", k->name,
			    k->line, (long long)((k->expires_s - now) / 86400));
	}
}

void
doctor_keys(const struct settings *s)
{
	const char *path = s->c.str[CFG_KEYS_FILE];
	FILE *f = *path != '\0' ? doctor_open(SETTING, path, 077) : NULL;
	struct keys_file keys;
	char why[256], *text;
	size_t n;

	if (f == NULL)
		return;
	if ((text = malloc(KEYS_FILE_MAX + 1)) != NULL) {
		n = fread(text, 1, KEYS_FILE_MAX + 1, f);
		if (keys_file_parse(text, n, &keys, why, sizeof(why)) == -1)
			doctor_say(FINDING_FAIL, SETTING ": %s: %s", path, why);
		else {
			judge(path, &keys);
			keys_file_free(&keys);
		}
	}
	free(text);
	fclose(f);
}
