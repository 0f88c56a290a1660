/*
 * The places for connections: how many an address may take, and whose connection makes room for
 * another when all are taken. An IPv6 address counts with all of its /64.
 */
#ifndef APID_PLACES_H
#define APID_PLACES_H

#include <stddef.h>

struct conn;
struct peer_addr;
struct peer_trust;

/* per_address 0: no limit. The trusted ones may take all: they stand for many. */
void places_init(size_t per_address, const struct peer_trust *);
/* Gives c the place that its peer's address has for it, instead of the one that it had. -1: the
 * address has taken all of its places; c has none then. */
int places_take(struct conn *);
void places_give(struct conn *);
size_t places_taken(void);
/*
 * Which one has to go: of the address that has the most, the one that came first of those that may.
 * Addresses that are trusted come last. NULL: there is none but the newcomer.
 */
struct conn *places_victim(const struct conn *newcomer, int (*may_go)(const struct conn *));

#endif
