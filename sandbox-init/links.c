/* A hash table from device and inode to the first name. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-init/links.h"
#include "sandbox-init/mem.h"

struct link_entry {
	struct link_entry *next;
	dev_t dev;
	ino_t ino;
	char path[];
};

static size_t
slot_of(const struct links *l, dev_t dev, ino_t ino)
{
	uint64_t h = ((uint64_t)ino ^ (uint64_t)dev << 32) * 0x9e3779b97f4a7c15u;

	return (size_t)(h >> 32) % l->nslots;
}

static void
grow(struct links *l)
{
	struct links bigger = {.nslots = l->nslots ? l->nslots * 4 : 256, .n = l->n};
	struct link_entry *e, *next;
	size_t i, s;

	bigger.slots = mem_new(bigger.nslots * sizeof(struct link_entry *));
	for (i = 0; i < l->nslots; i++) {
		for (e = l->slots[i]; e != NULL; e = next) {
			next = e->next;
			s = slot_of(&bigger, e->dev, e->ino);
			e->next = bigger.slots[s];
			bigger.slots[s] = e;
		}
	}
	free(l->slots);
	*l = bigger;
}

const char *
links_seen(struct links *l, const struct stat *st, const char *path)
{
	struct link_entry *e;
	size_t s;

	if (l->n >= l->nslots)
		grow(l);
	s = slot_of(l, st->st_dev, st->st_ino);
	for (e = l->slots[s]; e != NULL; e = e->next)
		if (e->dev == st->st_dev && e->ino == st->st_ino)
			return e->path;
	e = mem_new(sizeof(*e) + strlen(path) + 1);
	e->dev = st->st_dev;
	e->ino = st->st_ino;
	strcpy(e->path, path);
	e->next = l->slots[s];
	l->slots[s] = e;
	l->n++;
	return NULL;
}
