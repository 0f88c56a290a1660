/* Events of a command, which come as lines of JSON. Pure. */
#ifndef CLIENTS_API_EVENT_H
#define CLIENTS_API_EVENT_H

#include <stddef.h>
#include <jansson.h>

/* The value of one line; NULL: it is no JSON. */
json_t *event_read(const char *line, size_t n);

#endif
