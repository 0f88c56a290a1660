/* Checks a client's list of hosts (egress.h). */
#include "apid/egress.h"

int
egress_check(const json_t *v, struct refusal *why)
{
	size_t i;

	if (v == NULL)
		return 0;
	if (!json_is_array(v))
		return refuse(why, 422, "egress_allowlist: must be an array");
	for (i = 0; i < json_array_size(v); i++) {
		if (!json_is_string(json_array_get(v, i)))
			return refuse(why, 422, "egress_allowlist: must be an array of strings");
	}
	if (json_array_size(v) == 0)
		return 0;
	return refuse(why, 400, "egress_allowlist: not available on this server");
}
