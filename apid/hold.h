/*
 * What is kept in memory for requests, bodies and answers: how much of it there may be in all, and
 * for one key, by which requests of others are told apart.
 */
#ifndef APID_HOLD_H
#define APID_HOLD_H

#include <stddef.h>
#include <stdint.h>

struct holder;

/* n more bytes; *h is NULL at first. -1: it has more than are left for all others. */
int hold_more(struct holder **h, const uint8_t key[32], size_t n);
void hold_less(struct holder *h, size_t n);
/* The request is over, with the n bytes that it still has. */
void hold_end(struct holder **h, size_t n);

#endif
