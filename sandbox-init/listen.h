/* Where clients inside connect to: the two proxies, and an address of its own for each name of the
 * list that the hosts file has. */
#ifndef SANDBOX_INIT_LISTEN_H
#define SANDBOX_INIT_LISTEN_H

#include <stddef.h>

/* EGRESS: listens, for the list in text[0..len), and says how that went. */
void listen_start(const char *text, size_t len);
/* HELLO: there is no way out until the next EGRESS. */
void listen_stop(void);
/* A place has become free. */
void listen_go_on(void);

#endif
