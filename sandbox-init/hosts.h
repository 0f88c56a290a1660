/* Which names the sandbox's hosts file maps to loopback addresses of their own. Pure. */
#ifndef SANDBOX_INIT_HOSTS_H
#define SANDBOX_INIT_HOSTS_H

#include <stddef.h>
#include <stdint.h>

/* Those addresses: 127.64.0.0/16. */
struct hosts_name {
	uint8_t address[4];
	const char *name; /* into the text, not ended by NUL */
	size_t len;
};

/* The next such name in text[*at..len), which moves on: 1, or 0 at the end. */
int hosts_next(const char *text, size_t len, size_t *at, struct hosts_name *);

#endif
