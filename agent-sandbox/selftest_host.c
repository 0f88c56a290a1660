/* The addresses of this machine: where the server runs here, sandboxes must not reach them. */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent-sandbox/selftest.h"

#define ADDRESSES_MAX 12

static char addresses[ADDRESSES_MAX][INET6_ADDRSTRLEN];
static size_t n;

static void
add(const struct sockaddr *sa)
{
	const struct sockaddr_in *four = (const void *)sa;
	const struct sockaddr_in6 *six = (const void *)sa;

	if (sa->sa_family == AF_INET)
		inet_ntop(AF_INET, &four->sin_addr, addresses[n++], INET6_ADDRSTRLEN);
	else if (sa->sa_family == AF_INET6 && !IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr))
		inet_ntop(AF_INET6, &six->sin6_addr, addresses[n++], INET6_ADDRSTRLEN);
}

void
host_find(void)
{
	struct ifaddrs *list, *i;

	if (getifaddrs(&list) == -1)
		return;
	for (i = list; i != NULL && n < ADDRESSES_MAX; i = i->ifa_next)
		if (i->ifa_addr != NULL && (i->ifa_flags & IFF_LOOPBACK) == 0)
			add(i->ifa_addr);
	freeifaddrs(list);
}

static int
is_here(const char *url)
{
	static const char *const hosts[] = {"://127.", "://localhost", "://[::1]"};

	for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++)
		if (strstr(url, hosts[i]) != NULL)
			return 1;
	return 0;
}

void
host_arguments(json_t *command, const char *url)
{
	const char *colon = strrchr(url, ':');
	int port = colon != NULL ? atoi(colon + 1) : 0;
	char near[INET6_ADDRSTRLEN + 16];

	for (size_t i = 0; i < selftest.near.n; i++) {
		json_array_append_new(command, json_string("-n"));
		json_array_append_new(command, json_string(selftest.near.v[i]));
	}
	if (!is_here(url))
		return;
	for (size_t i = 0; i < n; i++) {
		json_array_append_new(command, json_string("-s"));
		json_array_append_new(command, json_string(addresses[i]));
		if (port <= 0)
			continue;
		snprintf(near, sizeof(near), strchr(addresses[i], ':') ? "[%s]:%d" : "%s:%d",
		    addresses[i], port);
		json_array_append_new(command, json_string("-n"));
		json_array_append_new(command, json_string(near));
	}
}
