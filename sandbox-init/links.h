/* Which files with several names were met already, and under which name first. */
#ifndef SANDBOX_INIT_LINKS_H
#define SANDBOX_INIT_LINKS_H

#include <stddef.h>
#include <sys/stat.h>

struct link_entry;

struct links {
	struct link_entry **slots;
	size_t nslots, n;
};

/* The name under which this file was seen first; NULL: now, as path (which is copied). */
const char *links_seen(struct links *, const struct stat *, const char *path);

#endif
