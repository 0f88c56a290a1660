/* Versions of MCP, and what came with which. */
#ifndef CLIENTS_MCP_VERSION_H
#define CLIENTS_MCP_VERSION_H

enum version {
	V_NONE = -1,
	V_2024_11_05,
	V_2025_03_26, /* annotations of tools, messages in progress, batches */
	V_2025_06_18, /* structured results, titles; no batches */
	V_2025_11_25, /* wrong arguments are failures of the tool */
	V_2026_07_28, /* no handshake: each request says its version */
	V_COUNT,
};
#define V_LAST_HANDSHAKE V_2025_11_25

extern const char *const version_names[V_COUNT];

enum version version_find(const char *name);

#endif
