/*
 * Lists of where a sandbox may connect to: entries `host`, `host:port`, `*.example.com[:port]`, an
 * IP address (`[v6]:port` with a port) or a CIDR, and the addresses that are not public. Pure
 * functions over bytes, for all who read such a list; no memory is allocated.
 */
#ifndef COMMON_EGRESS_H
#define COMMON_EGRESS_H

#include <stddef.h>
#include <stdint.h>

#include "proto/dial.h"

#define EGRESS_NAME_MAX 253 /* characters of a canonical name */
#define EGRESS_ENTRY_MAX \
	(EGRESS_NAME_MAX + sizeof("*.:65535")) /* of a canonical entry, with its NUL */
#define EGRESS_ANY "*"                         /* instead of a list: every public address */

struct egress_addr {
	uint8_t family; /* 4 or 6; a v4 address that is written as a v6 one is 4 */
	uint8_t byte[16];
};

/* What somebody dials: a name or an address, in its canonical spelling. */
struct egress_host {
	struct egress_addr addr; /* family 0: a name */
	char name[EGRESS_NAME_MAX + 1];
};

enum egress_kind {
	EGRESS_HOST,  /* this name */
	EGRESS_BELOW, /* every name that ends in "." and this one */
	EGRESS_NET, /* the addresses whose first `bits` are those of addr; one address: 32 or 128 */
};

struct egress_entry {
	enum egress_kind kind;
	uint16_t port; /* 0: none is named, which allows 80 and 443 */
	uint8_t bits;
	struct egress_addr addr;
	char name[EGRESS_NAME_MAX + 1];
};

/*
 * text[0..len) as a host. Names: letters (made small), digits, "-" and "_"; labels of 1 to 63, 253
 * in all; one dot at the end is dropped. Names in other alphabets must come in their ASCII form
 * (xn--…), as they do in TLS and HTTP. What only some programs take for an IPv4 address (127.1,
 * 0x7f.1, 2130706433, 010.0.0.1) is neither name nor address. "[…]" around v6 is taken. 0, or -1
 * and *why: a text to follow the name, as "is not a host name: …".
 */
int egress_host(const char *text, size_t len, struct egress_host *, const char **why);

/* text[0..len) as one entry, however it is spelled: 0, or -1 and *why, likewise. */
int egress_entry(const char *text, size_t len, struct egress_entry *, const char **why);
/* Its canonical spelling. Returns its length. */
size_t egress_entry_text(const struct egress_entry *, char out[EGRESS_ENTRY_MAX]);

/* A list under construction: canonical entries joined by '\n'. Begin with zeros. */
struct egress_list {
	size_t len;
	unsigned entries;
	char text[EGRESS_TEXT_MAX + 1]; /* with a NUL */
};
/* Adds an entry, unless the list has it already. -1 and *why when it is none or the list is full.
 */
int egress_list_add(struct egress_list *, const char *text, size_t len, const char **why);

/* Walks through a list; start with {list, len, 0}. */
struct egress_walk {
	const char *list;
	size_t len;
	size_t at;
};
/* The next entry: 1; 0 at the end; -1 when what stands there is none. */
int egress_next(struct egress_walk *, struct egress_entry *);
/*
 * The next host entry whose name no earlier one has, in a list that is canonical: 1, with its name;
 * 0 at the end; -1 likewise.
 */
int egress_next_host(struct egress_walk *, char name[EGRESS_NAME_MAX + 1]);
/* The ports that the host entries with this canonical name allow, each once, at most max. */
size_t egress_ports(const char *list, size_t len, const char *name, uint16_t *ports, size_t max);
/* Whether every line of list[0..len) is an entry, and there are not too many. "" is a list. */
int egress_list_valid(const char *list, size_t len);

/* Whether an entry allows this port. */
int egress_port_allowed(const struct egress_entry *, uint16_t port);
/* Whether the list lets anybody dial this port there. Addresses match only addresses and CIDRs. */
int egress_match(const char *list, size_t len, const struct egress_host *, uint16_t port);
/*
 * Whether list allows all that entry does, so that a narrower list may have it. An entry that lies
 * wholly in a range that is not public is covered only by one that does so, too.
 */
int egress_covers(const char *list, size_t len, const struct egress_entry *);

/* The addresses that are not public. The first row that an address is in is what it is. */
struct egress_range {
	struct egress_addr addr;
	uint8_t bits;
	const char *cidr;
	const char *reason; /* one or two words: "loopback", "link-local" */
	const char *source; /* who says so: "RFC 1918" */
};
extern const struct egress_range egress_ranges[]; /* ends with cidr NULL */

/* The row that the address is in; NULL: it is public. */
const struct egress_range *egress_address_range(const struct egress_addr *);
/* The row that all of a NET entry lies in, so that it names what is not public; else NULL. */
const struct egress_range *egress_entry_range(const struct egress_entry *);
/*
 * Whether an entry of the list names this address, which is not public, and port: as itself or,
 * unless exact, by a CIDR that lies wholly in the same row. 0.0.0.0/0 names nothing.
 */
int
egress_literal(const char *list, size_t len, const struct egress_addr *, uint16_t port, int exact);

/* 4 or 16 bytes as an address; a v4 address inside a v6 one (::ffff:0:0/96) comes out as v4. */
void egress_addr(struct egress_addr *, const void *bytes, size_t n);
#define EGRESS_ADDR_TEXT 48
void egress_addr_text(const struct egress_addr *, char out[EGRESS_ADDR_TEXT]);
/* Whether the first bits of both are the same, and the family. */
int egress_addr_within(const struct egress_addr *, const struct egress_addr *net, unsigned bits);

#endif
