/* Names, addresses and entries of egress lists: their grammar, and what a list allows. */
#include "common/egress.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#define LABEL_MAX 63
#define DIGITS "0123456789"
#define HEX DIGITS "abcdef"

/* 1 to 65535 in decimal digits, without a zero in front; 0: it is none. */
static uint16_t
port_of(const char *text, size_t len)
{
	unsigned port = 0;
	size_t i;

	if (len == 0 || len > 5 || text[0] == '0')
		return 0;
	for (i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9')
			return 0;
		port = port * 10 + (unsigned)(text[i] - '0');
	}
	return port <= UINT16_MAX ? (uint16_t)port : 0;
}

/* Small letters; -1 at a byte that no name has. */
static int
name_copy(const char *text, size_t len, char *out, const char **why)
{
	size_t i;

	for (i = 0; i < len; i++) {
		char c = text[i];
		if (c >= 'A' && c <= 'Z')
			c = (char)(c - 'A' + 'a');
		if ((unsigned char)c >= 0x80) {
			*why = "a name in another alphabet is written in its ASCII form, xn--…";
			return -1;
		}
		if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
			c == '.')) {
			*why = "a host is letters, digits, \"-\", \"_\" and dots, without scheme, "
			       "path or "
			       "blanks";
			return -1;
		}
		out[i] = c;
	}
	out[len] = '\0';
	return 0;
}

/* What some programs would take for a number, and so the whole name for an address. */
static int
label_is_number(const char *label)
{
	if (label[strspn(label, DIGITS)] == '\0')
		return 1;
	return label[0] == '0' && label[1] == 'x' && label[2 + strspn(label + 2, HEX)] == '\0';
}

static int
labels_valid(const char *name, const char **why)
{
	const char *label = name;
	size_t n;

	for (;;) {
		n = strcspn(label, ".");
		if (n == 0 || n > LABEL_MAX || label[0] == '-' || label[n - 1] == '-') {
			*why = "between dots stand 1 to 63 characters, without \"-\" at an end";
			return -1;
		}
		if (label[n] == '\0')
			break;
		label += n + 1;
	}
	if (label_is_number(label)) {
		*why =
		    "an IPv4 address is four decimal numbers from 0 to 255, without zeros in front";
		return -1;
	}
	if (strcmp(label, "localhost") == 0) {
		*why = "localhost is the sandbox itself";
		return -1;
	}
	return 0;
}

static void
host_is_address(struct egress_host *host, const void *bytes, size_t n)
{
	egress_addr(&host->addr, bytes, n);
	egress_addr_text(&host->addr, host->name);
}

/* IPv6, without brackets. */
static int
address6(const char *text, size_t len, struct egress_host *host, const char **why)
{
	char buf[EGRESS_ADDR_TEXT];
	uint8_t bytes[16];

	if (len < sizeof(buf) && memchr(text, '\0', len) == NULL) {
		memcpy(buf, text, len);
		buf[len] = '\0';
		if (inet_pton(AF_INET6, buf, bytes) == 1) {
			host_is_address(host, bytes, sizeof(bytes));
			return 0;
		}
	}
	*why = "this is no IPv6 address";
	return -1;
}

int
egress_host(const char *text, size_t len, struct egress_host *host, const char **why)
{
	uint8_t bytes[4];

	memset(host, 0, sizeof(*host));
	if (len >= 2 && text[0] == '[' && text[len - 1] == ']')
		return address6(text + 1, len - 2, host, why);
	if (len > 0 && memchr(text, ':', len) != NULL)
		return address6(text, len, host, why);
	if (len > EGRESS_NAME_MAX + 1 || (len == EGRESS_NAME_MAX + 1 && text[len - 1] != '.')) {
		*why = "a name has at most 253 characters";
		return -1;
	}
	if (len < 16) {
		memcpy(host->name, text, len);
		if (strlen(host->name) == len && inet_pton(AF_INET, host->name, bytes) == 1) {
			host_is_address(host, bytes, sizeof(bytes));
			return 0;
		}
	}
	if (len > 1 && text[len - 1] == '.')
		len--;
	if (len == 0) {
		*why = "there is no host";
		return -1;
	}
	return name_copy(text, len, host->name, why) == 0 ? labels_valid(host->name, why) : -1;
}

/* Bits behind the prefix would say that something else was meant. */
static int
prefix_is_whole(const struct egress_addr *a, unsigned bits)
{
	struct egress_addr cut = {.family = a->family};
	unsigned whole = bits / 8;

	memcpy(cut.byte, a->byte, whole);
	if (bits % 8 != 0)
		cut.byte[whole] = (uint8_t)(a->byte[whole] & (0xff00 >> (bits % 8)));
	return memcmp(cut.byte, a->byte, sizeof(cut.byte)) == 0;
}

/* ADDRESS/BITS; slash is where. */
static int
entry_net(const char *text, size_t len, size_t slash, struct egress_entry *e, const char **why)
{
	struct egress_host host;
	unsigned bits, most, mapped;
	const char *digits = text + slash + 1;
	size_t n = len - slash - 1;

	if (egress_host(text, slash, &host, why) == -1 || host.addr.family == 0) {
		*why = "before \"/\" stands an address, and nothing else has a path";
		return -1;
	}
	bits = port_of(digits, n); /* 0 for "0", too */
	/* A v4 address in a v6 one: what is written counts the 96 bits before it. */
	mapped = host.addr.family == 4 && memchr(text, ':', slash) != NULL ? 96 : 0;
	most = (host.addr.family == 4 ? 32 : 128) + mapped;
	if ((bits == 0 && !(n == 1 && digits[0] == '0')) || bits > most || bits < mapped) {
		*why = "behind \"/\" stands how many bits are the network's";
		return -1;
	}
	bits -= mapped;
	if (!prefix_is_whole(&host.addr, bits)) {
		*why = "behind the network's bits all bits must be 0";
		return -1;
	}
	e->kind = EGRESS_NET;
	e->bits = (uint8_t)bits;
	e->addr = host.addr;
	return 0;
}

/* Where the host ends: before ":port", which is taken apart. (size_t)-1: the port is none. */
static size_t
entry_port(const char *text, size_t len, uint16_t *port)
{
	const char *colon = memrchr(text, ':', len);
	size_t at;

	*port = 0;
	if (colon == NULL)
		return len;
	at = (size_t)(colon - text);
	/* An address of version 6 without brackets has no port. */
	if (text[0] == '[' ? text[at - 1] != ']' : memchr(text, ':', at) != NULL)
		return len;
	*port = port_of(colon + 1, len - at - 1);
	return *port == 0 ? (size_t)-1 : at;
}

int
egress_entry(const char *text, size_t len, struct egress_entry *e, const char **why)
{
	const char *slash = len > 0 ? memchr(text, '/', len) : NULL;
	int below = len > 2 && text[0] == '*' && text[1] == '.';
	struct egress_host host;
	size_t end;

	memset(e, 0, sizeof(*e));
	if (slash != NULL)
		return entry_net(text, len, (size_t)(slash - text), e, why);
	if (len > 0 && text[0] == '*' && !below) {
		*why = "a wildcard stands for whole labels in front: *.example.com";
		return -1;
	}
	if ((end = len > 0 ? entry_port(text, len, &e->port) : 0) == (size_t)-1) {
		*why = "a port is a number from 1 to 65535";
		return -1;
	}
	if (egress_host(text + 2 * below, end - 2 * (size_t)below, &host, why) == -1)
		return -1;
	if (below && host.addr.family != 0) {
		*why = "addresses have no wildcard, but ADDRESS/BITS";
		return -1;
	}
	e->kind = below ? EGRESS_BELOW : host.addr.family != 0 ? EGRESS_NET : EGRESS_HOST;
	e->addr = host.addr;
	e->bits = host.addr.family == 4 ? 32 : host.addr.family == 6 ? 128 : 0;
	if (host.addr.family == 0)
		memcpy(e->name, host.name, sizeof(e->name));
	return 0;
}

size_t
egress_entry_text(const struct egress_entry *e, char out[EGRESS_ENTRY_MAX])
{
	char addr[EGRESS_ADDR_TEXT], port[sizeof(":65535")] = "";
	int bracket = 0;

	if (e->port != 0)
		snprintf(port, sizeof(port), ":%u", (unsigned)e->port);
	if (e->kind == EGRESS_HOST)
		return (size_t)snprintf(out, EGRESS_ENTRY_MAX, "%s%s", e->name, port);
	if (e->kind == EGRESS_BELOW)
		return (size_t)snprintf(out, EGRESS_ENTRY_MAX, "*.%s%s", e->name, port);
	egress_addr_text(&e->addr, addr);
	if (e->bits != (e->addr.family == 4 ? 32 : 128))
		return (size_t)snprintf(out, EGRESS_ENTRY_MAX, "%s/%u", addr, (unsigned)e->bits);
	bracket = e->addr.family == 6 && e->port != 0;
	return (size_t)snprintf(
	    out, EGRESS_ENTRY_MAX, "%s%s%s%s", bracket ? "[" : "", addr, bracket ? "]" : "", port);
}
