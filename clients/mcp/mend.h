/* Halves of characters in JSON, which many writers of it let through. Pure. */
#ifndef CLIENTS_MCP_MEND_H
#define CLIENTS_MCP_MEND_H

#include <stddef.h>

/* Escapes of one half of a surrogate pair ("\ud83d" without its other half) in n bytes of JSON
 * become "\ufffd". Returns how many there were. */
size_t mend_halves(char *json, size_t n);

#endif
