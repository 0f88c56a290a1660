/* ADDRESS:PORT of this machine only; see settings.h. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <bsd/stdlib.h>

#include "config/settings.h"

int
config_loopback(const char *text, union loopback *at, socklen_t *len)
{
	const char *colon = strrchr(text, ':'), *why = NULL;
	char host[INET6_ADDRSTRLEN + 2];
	uint16_t port;
	size_t n;

	if (colon == NULL || (n = (size_t)(colon - text)) == 0 || n >= sizeof(host) ||
	    strspn(colon + 1, "0123456789") != strlen(colon + 1))
		return -1;
	port = htons((uint16_t)strtonum(colon + 1, 0, 65535, &why));
	snprintf(host, sizeof(host), "%.*s", (int)n, text);
	memset(at, 0, sizeof(*at));
	if (host[0] == '[' && host[n - 1] == ']') {
		host[n - 1] = '\0';
		at->v6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = port};
		*len = sizeof(at->v6);
		return why == NULL && inet_pton(AF_INET6, host + 1, &at->v6.sin6_addr) == 1 &&
			       IN6_IS_ADDR_LOOPBACK(&at->v6.sin6_addr)
			   ? 0
			   : -1;
	}
	at->v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = port};
	*len = sizeof(at->v4);
	return why == NULL && inet_pton(AF_INET, host, &at->v4.sin_addr) == 1 &&
		       ntohl(at->v4.sin_addr.s_addr) >> 24 == 127
		   ? 0
		   : -1;
}
