/*
 * The name servers for egressd, which can open no file: the addresses in /etc/resolv.conf. Nothing
 * else there counts, since names in allowlists are whole ones.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include <bsd/string.h>

#include "agent-sandboxd/parent.h"
#include "common/log.h"

#define RESOLV_CONF "/etc/resolv.conf"
#define FILE_MAX 16384
#define SERVERS_MAX 3 /* as in resolv.conf(5) */

static int
is_address(const char *text)
{
	unsigned char any[16];
	char plain[INET6_ADDRSTRLEN];

	strlcpy(plain, text, sizeof(plain));
	plain[strcspn(plain, "%")] = '\0'; /* of a link: egressd is on the same host */
	return inet_pton(AF_INET, text, any) == 1 || inet_pton(AF_INET6, plain, any) == 1;
}

/* "address,address…"; without any, the local one that the resolver takes then. */
static void
resolv_parse(char *conf, char *out, size_t size)
{
	char *line, *word, *address;
	int n = 0;

	out[0] = '\0';
	while ((line = strsep(&conf, "\n")) != NULL) {
		word = strsep(&line, " \t");
		if (line == NULL || strcmp(word, "nameserver") != 0)
			continue;
		line += strspn(line, " \t");
		address = strsep(&line, " \t\r;#");
		if (n == SERVERS_MAX || !is_address(address))
			continue;
		n++;
		if (out[0] != '\0')
			strlcat(out, ",", size);
		strlcat(out, address, size);
	}
	if (out[0] == '\0')
		strlcpy(out, "127.0.0.1", size);
}

static void
resolv_read(char *out, size_t size)
{
	static char conf[FILE_MAX + 1];
	int fd = open(RESOLV_CONF, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n = fd == -1 ? 0 : read(fd, conf, FILE_MAX);

	if (fd != -1)
		close(fd);
	conf[n < 0 ? 0 : n] = '\0';
	resolv_parse(conf, out, size);
}

void
resolv_send(struct parent *p)
{
	const struct m_none none = {0};

	resolv_read(p->resolvers, sizeof(p->resolvers));
	send_P_RESOLV(p->prog[PROG_EGRESSD].chan, 0, &none, p->resolvers, strlen(p->resolvers), -1);
}

void
resolv_check(struct parent *p)
{
	char now[RESOLV_MAX];

	if (p->prog[PROG_EGRESSD].chan == NULL)
		return;
	resolv_read(now, sizeof(now));
	if (strcmp(now, p->resolvers) == 0)
		return;
	log_info("name servers: %s", now);
	resolv_send(p);
}
