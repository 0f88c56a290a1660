/* What /proc says of a process; see procfs.h. */
#include "common/procfs.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int64_t
procfs_memory(pid_t pid)
{
	char path[64], text[128] = "";
	long long pages = -1;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
	if ((fd = open(path, O_RDONLY | O_CLOEXEC)) == -1)
		return -1;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	return n > 0 && sscanf(text, "%*d %lld", &pages) == 1 ? pages * getpagesize() : -1;
}

int64_t
procfs_descriptors(pid_t pid)
{
	char path[64];
	int64_t n = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	if ((dir = opendir(path)) == NULL)
		return -1;
	while (readdir(dir) != NULL)
		n++;
	closedir(dir);
	return n - 2; /* . and .. */
}
