/* The records on disk at the start. */
#ifndef MANAGERD_LOAD_H
#define MANAGERD_LOAD_H

#include <stdint.h>

/* Loads all. foreign: the sandboxes belong to another instance, so their records are dropped. */
void load_records(int foreign);
/* Hands what a crash left half-done to the engine's cleaning. */
void load_finish(void);
/* A sandbox whose record cannot be read: neither shown nor removed. */
int load_is_damaged(uint64_t sandbox);
int load_any_damaged(void);
/* Sandbox records in the folder. */
int load_count(void);

#endif
