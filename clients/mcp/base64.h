/* Base64 (RFC 4648) of bytes. Pure. */
#ifndef CLIENTS_MCP_BASE64_H
#define CLIENTS_MCP_BASE64_H

#include <stddef.h>

/* To be freed. */
char *base64(const char *, size_t n);

#endif
