/* Addresses of clients, and what trusted proxies say of them (peer.h). */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apid/head.h"
#include "apid/peer.h"
#include "common/items.h"
#include "common/keys_file.h"
#include "common/log.h"

#define FIELD_NAME "X-Forwarded-For"

static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

void
peer_set(struct peer_addr *p, const uint8_t addr[16], uint16_t port)
{
	int four = memcmp(addr, mapped, sizeof(mapped)) == 0;
	char text[INET6_ADDRSTRLEN] = "?";

	memmove(p->addr, addr, sizeof(p->addr));
	p->port = port;
	inet_ntop(
	    four ? AF_INET : AF_INET6, p->addr + (four ? sizeof(mapped) : 0), text, sizeof(text));
	if (port == 0)
		snprintf(p->text, sizeof(p->text), "%s", text);
	else
		snprintf(p->text, sizeof(p->text), four ? "%s:%u" : "[%s]:%u", text, port);
}

static void
set_four(struct peer_addr *p, const void *four, uint16_t port)
{
	uint8_t addr[16];

	memcpy(addr, mapped, sizeof(mapped));
	memcpy(addr + sizeof(mapped), four, 4);
	peer_set(p, addr, port);
}

void
peer_set_sockaddr(struct peer_addr *p, const struct sockaddr *sa)
{
	const struct sockaddr_in *in = (const void *)sa;
	const struct sockaddr_in6 *in6 = (const void *)sa;

	memset(p, 0, sizeof(*p));
	if (sa->sa_family == AF_INET)
		set_four(p, &in->sin_addr, ntohs(in->sin_port));
	else if (sa->sa_family == AF_INET6)
		peer_set(p, in6->sin6_addr.s6_addr, ntohs(in6->sin6_port));
	else
		p->text[0] = '?';
}

void
peer_trust_init(struct peer_trust *t, const char *list)
{
	const char *item, *why;
	char text[KEYS_NET_TEXT];
	size_t n;

	memset(t, 0, sizeof(*t));
	while ((item = items_next(&list, &n)) != NULL) {
		t->nets = reallocarray(t->nets, t->count + 1, sizeof(*t->nets));
		if (t->nets == NULL)
			fatal("trusted proxies");
		snprintf(text, sizeof(text), "%.*s", (int)n, item);
		if (keys_net_parse(text, &t->nets[t->count++], &why) == -1)
			fatalx("trusted proxies: %s %s", text, why);
	}
}

int
peer_is_trusted(const struct peer_trust *t, const struct peer_addr *p)
{
	size_t i;

	for (i = 0; i < t->count; i++) {
		if (keys_net_covers(&t->nets[i], p->addr))
			return 1;
	}
	return 0;
}

/* Whether ":port" or nothing stands there. */
static int
is_port(const char *p)
{
	size_t n = strspn(p + (*p == ':'), "0123456789");

	return *p == '\0' || (*p == ':' && n > 0 && n <= 5 && p[1 + n] == '\0');
}

/* An item of the field: "192.0.2.1", "2001:db8::1", "[2001:db8::1]", also with a port, which tells
 * nothing. */
static int
parse_item(struct slice s, struct peer_addr *p)
{
	char text[64], *end;
	uint8_t addr[16];

	if (s.n == 0 || s.n >= sizeof(text))
		return -1;
	memcpy(text, s.p, s.n);
	text[s.n] = '\0';
	if (text[0] == '[') {
		if ((end = strchr(text, ']')) == NULL || !is_port(end + 1))
			return -1;
		*end = '\0';
		if (inet_pton(AF_INET6, text + 1, addr) != 1)
			return -1;
		peer_set(p, addr, 0);
		return 0;
	}
	if (inet_pton(AF_INET6, text, addr) == 1) {
		peer_set(p, addr, 0);
		return 0;
	}
	if ((end = strchr(text, ':')) != NULL) {
		if (!is_port(end))
			return -1;
		*end = '\0';
	}
	if (inet_pton(AF_INET, text, addr) != 1)
		return -1;
	set_four(p, addr, 0);
	return 0;
}

/* Goes through a list from its end. Returns 1 to go on with what stands before it. */
static int
follow(struct slice list, const struct peer_trust *trust, struct peer_addr *p)
{
	const char *end = list.p + list.n, *start;
	struct slice item;

	for (;; end = start - 1) {
		for (start = end; start > list.p && start[-1] != ','; start--)
			;
		item = (struct slice){start, (size_t)(end - start)};
		while (item.n > 0 && (*item.p == ' ' || *item.p == '\t')) {
			item.p++;
			item.n--;
		}
		while (item.n > 0 && (item.p[item.n - 1] == ' ' || item.p[item.n - 1] == '\t'))
			item.n--;
		if (parse_item(item, p) == -1 || !peer_is_trusted(trust, p))
			return 0;
		if (start == list.p)
			return 1;
	}
}

void
peer_forwarded(const char *head, size_t n, const struct peer_trust *trust, struct peer_addr *p)
{
	const size_t name = sizeof(FIELD_NAME) - 1;
	const char *end = head + n, *eol;
	struct slice lists[HEAD_FIELDS_MAX];
	size_t count = 0;

	if (!peer_is_trusted(trust, p))
		return;
	for (; head < end && count < HEAD_FIELDS_MAX; head = eol + 2) {
		if ((eol = memmem(head, (size_t)(end - head), "\r\n", 2)) == NULL)
			break;
		if ((size_t)(eol - head) > name && head[name] == ':' &&
		    slice_is((struct slice){head, name}, FIELD_NAME))
			lists[count++] =
			    (struct slice){head + name + 1, (size_t)(eol - head) - name - 1};
	}
	while (count > 0 && follow(lists[count - 1], trust, p))
		count--;
}
