/* Opens files of a server's data directory (data_file.h). */
#include "agent-sandbox/data_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int
data_file_open(int folder, const char *name, int flags)
{
	int fd = openat(folder, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | flags), saved;
	struct stat st;

	if (fd == -1) {
		if (errno == ENXIO) /* a socket */
			errno = ELOOP;
		return -1;
	}
	saved = fstat(fd, &st) == -1 ? errno : S_ISREG(st.st_mode) ? 0 : ELOOP;
	if (saved == 0)
		return fd;
	close(fd);
	errno = saved;
	return -1;
}

ssize_t
data_file_read(int folder, const char *name, int flags, void *buf, size_t size)
{
	int fd = data_file_open(folder, name, flags), saved;
	size_t have = 0;
	ssize_t n = 0;

	if (fd == -1)
		return -1;
	while (have < size && (n = read(fd, (char *)buf + have, size - have)) > 0)
		have += (size_t)n;
	saved = errno;
	close(fd);
	errno = saved;
	return n == -1 ? -1 : (ssize_t)have;
}

const char *
data_file_error(void)
{
	return errno == ELOOP ? "it is not a regular file" : strerror(errno);
}
