/* The id of a message that the JSON parser does not take. Pure. */
#ifndef CLIENTS_MCP_SALVAGE_H
#define CLIENTS_MCP_SALVAGE_H

#include <stddef.h>
#include <jansson.h>

/* The string or integer "id" of the one object that n bytes are, a new reference; NULL if it cannot
 * be told: brackets are missing, there is no such id, or more than one. */
json_t *salvage_id(const char *p, size_t n);

#endif
