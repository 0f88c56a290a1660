/* sandbox://ID/path: names of files in sandboxes. Pure. */
#ifndef CLIENTS_MCP_URI_H
#define CLIENTS_MCP_URI_H

#include <jansson.h>

#define URI_ID_MAX 64
#define URI_PATH_MAX 4096

struct uri {
	char id[URI_ID_MAX + 1];
	char path[URI_PATH_MAX + 1]; /* absolute, not escaped */
};

/* 0, or -1: it is none. */
int uri_read(const char *, struct uri *);
/* The URI of an absolute path. To be freed. */
char *uri_write(const char *id, const char *path);
/* Whether this can be an identifier of the API: letters, digits, "_", not too many. */
int uri_is_id(const char *);

#endif
