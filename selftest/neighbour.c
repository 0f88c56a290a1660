/* A sandbox that is only there to be reached by another; and what can be read of all processes. */
#include "selftest/neighbour.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "selftest/probe.h"

#define PORT 4004
#define LISTEN_SECONDS 300

/* Of the first interface that is not lo. */
static int
own_address(int s, char text[INET_ADDRSTRLEN])
{
	struct if_nameindex *list = if_nameindex(), *i;
	struct ifreq r;
	int found = -1;

	for (i = list; i != NULL && i->if_name != NULL && found == -1; i++) {
		memset(&r, 0, sizeof(r));
		snprintf(r.ifr_name, sizeof(r.ifr_name), "%s", i->if_name);
		if (strcmp(i->if_name, "lo") == 0 || ioctl(s, SIOCGIFADDR, &r) == -1)
			continue;
		inet_ntop(AF_INET, &((struct sockaddr_in *)(void *)&r.ifr_addr)->sin_addr, text,
		    INET_ADDRSTRLEN);
		found = 0;
	}
	if (list != NULL)
		if_freenameindex(list);
	return found;
}

int
neighbour_listen(void)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	int s = socket(AF_INET, SOCK_STREAM, 0), null = open("/dev/null", O_RDWR);
	char text[INET_ADDRSTRLEN];

	if (s == -1 || null == -1 || bind(s, (struct sockaddr *)&sin, sizeof(sin)) == -1 ||
	    listen(s, 16) == -1 || own_address(s, text) == -1)
		return 1;
	printf("%s:%d\n", text, PORT);
	fflush(stdout);
	if (fork() != 0)
		return 0;
	setsid();
	for (int fd = 0; fd < 3; fd++)
		dup2(null, fd);
	sleep(LISTEN_SECONDS);
	return 0;
}

static void
print_file(const char *pid, const char *name)
{
	char path[300], buf[65536];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%s/%s", pid, name);
	if ((n = read_text(path, buf, sizeof(buf))) <= 0)
		return;
	for (ssize_t i = 0; i < n; i++)
		if (buf[i] == '\0')
			buf[i] = '\n';
	fwrite(buf, 1, (size_t)n, stdout);
}

int
neighbour_environments(void)
{
	DIR *d = opendir("/proc");
	struct dirent *e;

	while (d != NULL && (e = readdir(d)) != NULL) {
		if (!isdigit((unsigned char)e->d_name[0]))
			continue;
		print_file(e->d_name, "environ");
		print_file(e->d_name, "cmdline");
	}
	return d == NULL;
}
