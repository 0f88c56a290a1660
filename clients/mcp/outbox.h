/* What waits for standard output. Nothing else in this program writes there. */
#ifndef CLIENTS_MCP_OUTBOX_H
#define CLIENTS_MCP_OUTBOX_H

#include <stddef.h>
#include <jansson.h>

struct outbox {
	int fd;
	int is_socket;
	char *buf;
	size_t at, n, room; /* buf[at..n) waits */
};

void outbox_init(struct outbox *, int fd);
void outbox_free(struct outbox *);
/* One message, one line; takes the reference. */
void outbox_put(struct outbox *, json_t *message);
size_t outbox_waiting(const struct outbox *);
/* Writes what goes without waiting. 0, or -1: nobody reads any more. */
int outbox_flush(struct outbox *);

#endif
