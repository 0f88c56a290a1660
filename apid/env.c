/* Checks environments, labels and egress allowlists (env.h). */
#include <string.h>

#include "apid/env.h"

int
string_has_nul(const json_t *v)
{
	return strlen(json_string_value(v)) != json_string_length(v);
}

int
env_check(json_t *env, size_t *bytes, struct refusal *why)
{
	const char *name;
	json_t *v;

	*bytes = 0;
	if (env == NULL)
		return 0;
	if (json_object_size(env) > ENV_MAX)
		return refuse(why, 400, "env: more than %d names", ENV_MAX);
	json_object_foreach (env, name, v) {
		if (name[0] == '\0')
			return refuse(why, 400, "env: a name is empty");
		if (strchr(name, '=') != NULL)
			return refuse(why, 400, "env: the name %.64s contains =", name);
		if (string_has_nul(v))
			return refuse(
			    why, 400, "env: the value of %.64s contains a NUL byte", name);
		*bytes += strlen(name) + 1 + json_string_length(v) + 1;
	}
	if (*bytes > ENV_BYTES_MAX)
		return refuse(why, 413, "env: larger than 64 KiB");
	return 0;
}

int
labels_check(json_t *labels, struct refusal *why)
{
	const char *name;
	json_t *v;

	if (labels == NULL)
		return 0;
	if (json_object_size(labels) > LABELS_MAX)
		return refuse(why, 400, "labels: more than %d", LABELS_MAX);
	json_object_foreach (labels, name, v) {
		if (name[0] == '\0' || strlen(name) > LABEL_NAME_MAX)
			return refuse(
			    why, 400, "labels: a name must have 1 to %d bytes", LABEL_NAME_MAX);
		if (string_has_nul(v))
			return refuse(
			    why, 400, "labels: the value of %s contains a NUL byte", name);
		if (json_string_length(v) > LABEL_VALUE_MAX)
			return refuse(why, 400, "labels: the value of %s is longer than %d bytes",
			    name, LABEL_VALUE_MAX);
	}
	return 0;
}

int
egress_check(json_t *list, struct refusal *why)
{
	size_t i, bytes = 0;
	json_t *v;

	if (list == NULL)
		return 0;
	if (!json_is_array(list))
		return refuse(why, 422, "egress_allowlist: must be an array of strings");
	if (json_array_size(list) > EGRESS_ENTRIES_MAX)
		return refuse(
		    why, 400, "egress_allowlist: more than %d entries", EGRESS_ENTRIES_MAX);
	json_array_foreach (list, i, v) {
		if (!json_is_string(v))
			return refuse(why, 422, "egress_allowlist: must be an array of strings");
		if (string_has_nul(v))
			return refuse(why, 400, "egress_allowlist: an entry contains a NUL byte");
		bytes += json_string_length(v) + 1;
	}
	if (bytes > EGRESS_TEXT_MAX)
		return refuse(
		    why, 400, "egress_allowlist: longer than %d bytes", EGRESS_TEXT_MAX - 1);
	return 0;
}
