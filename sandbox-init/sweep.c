/*
 * Removes trees of any depth without recursion, since a workspace may be deeper than there are
 * descriptors: what lies two levels down is moved one up, until there is no second level.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-init/sweep.h"

static unsigned long done; /* what was removed or moved */

static int
remove_one(int dir, const char *name)
{
	if (unlinkat(dir, name, 0) < 0 && unlinkat(dir, name, AT_REMOVEDIR) < 0)
		return errno == ENOENT ? 0 : -1;
	done++;
	return 0;
}

static DIR *
open_folder(int dir, const char *name)
{
	DIR *d = NULL;
	int fd;

	(void)!fchmodat(dir, name, 0700, 0);
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && (d = fdopendir(fd)) == NULL)
		close(fd);
	return d;
}

/* The next name in the folder, or NULL. */
static const char *
next_name(DIR *d)
{
	struct dirent *e;

	while ((e = readdir(d)) != NULL)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			return e->d_name;
	return NULL;
}

/* Empties a folder that lies in top. A name that is taken there is another one's in the next round.
 */
static void
lift(int top, const char *name)
{
	static unsigned long number;
	char fresh[64];
	const char *entry;
	DIR *d = open_folder(top, name);

	if (d == NULL)
		return;
	while ((entry = next_name(d)) != NULL) {
		if (remove_one(dirfd(d), entry) == 0)
			continue;
		snprintf(fresh, sizeof(fresh), ".agent-sandbox-sweep-%lu", number++);
		(void)!fchmodat(dirfd(d), entry, 0700, 0);
		done += renameat(dirfd(d), entry, top, fresh) == 0;
	}
	closedir(d);
	remove_one(top, name);
}

void
sweep(int parent, const char *name)
{
	unsigned long before;
	const char *entry;
	DIR *d;

	if (remove_one(parent, name) == 0 || (d = open_folder(parent, name)) == NULL)
		return;
	do {
		before = done;
		rewinddir(d);
		while ((entry = next_name(d)) != NULL)
			if (remove_one(dirfd(d), entry) < 0)
				lift(dirfd(d), entry);
	} while (done != before);
	closedir(d);
	remove_one(parent, name);
}
