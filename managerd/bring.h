/*
 * Brings up one new generation of a sandbox, as create, fork and rollback need it: prepared image,
 * container, session, stream, and the tree of a snapshot in it. What it made stays on failure: its
 * owner removes that.
 */
#ifndef MANAGERD_BRING_H
#define MANAGERD_BRING_H

#include <stdint.h>

#include "managerd/box.h"

struct event;
struct snap;
struct session;

struct bring {
	struct box *box;
	uint32_t generation;
	struct session *session;
	char container[72];
	int made;            /* the engine was asked for the container */
	struct event *again; /* to look at the container once more */
	int looks;
	char lost[256]; /* what the session said */
	int restores;   /* a tree is put in at the end */
	int restore_fd; /* the snapshot's file; -1: none, or handed on */
	int64_t size;
	uint8_t sha256[32];
	/* Exactly one of these, once, unless it is dropped before. text is fit for clients. */
	void (*ready)(struct bring *);
	void (*failed)(struct bring *, uint32_t status, const char *text);
};

/* The snapshot may be NULL. -1 with errno: its file cannot be opened. Nothing is started yet. */
int bring_init(struct bring *, struct box *, uint32_t generation, const struct snap *);
void bring_start(struct bring *);
/* Gives up: no callback comes. Ends the session if it is still the bring's. */
void bring_drop(struct bring *, uint32_t reason);

#endif
