/* Names of versions (version.h). */
#include <stddef.h>
#include <string.h>

#include "clients/mcp/version.h"

const char *const version_names[V_COUNT] = {
    "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"};

enum version
version_find(const char *name)
{
	for (int v = 0; v < V_COUNT; v++)
		if (strcmp(version_names[v], name) == 0)
			return (enum version)v;
	return V_NONE;
}
