/* Looks at received descriptors before they are used or handed on. */
#include <sys/socket.h>

#include "managerd/fds.h"

static int
option_is(int fd, int option, int want)
{
	socklen_t len = sizeof(int);
	int got;

	return getsockopt(fd, SOL_SOCKET, option, &got, &len) == 0 && got == want;
}

int
fd_is_socket(int fd, int type)
{
	return option_is(fd, SO_DOMAIN, AF_UNIX) && option_is(fd, SO_TYPE, type);
}
