/*
 * What a client of the API (the command, the MCP server) gives up once it has read its settings and
 * its key: it talks to strangers from then on, and what it reads comes out of sandboxes.
 */
#ifndef COMMON_CONFINE_CLIENT_H
#define COMMON_CONFINE_CLIENT_H

#include "common/confine.h"

/*
 * No new privileges, not dumpable, no core, the filter "parent" and "client" of confine_groups.c,
 * and with paths not NULL a Landlock domain in which only these are left (those that do not exist
 * are skipped). A client must work where the kernel lacks a step: that one is left out. Returns 0,
 * or 1 when something was left out. Afterwards nothing can be undone.
 */
int confine_client(const struct confine_path *paths);

#endif
