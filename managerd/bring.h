/*
 * Brings up one new generation of a sandbox, as create, fork and rollback need it: a member of the
 * pool if one fits, else prepared image, container, session, stream; and the tree of a snapshot in
 * it. The members of the pool are brought up here, too. What it made under the sandbox's name stays
 * on failure: its owner removes that.
 */
#ifndef MANAGERD_BRING_H
#define MANAGERD_BRING_H

#include <stdint.h>

#include "managerd/box.h"

struct event;
struct snap;
struct snap_bytes;
struct session;

struct bring {
	struct box *box; /* NULL: a member of the pool */
	const struct spec *spec;
	uint64_t pool; /* the member that is made, or was claimed; 0: none */
	int claimed;
	int local; /* the image is not pulled */
	uint32_t generation;
	struct session *session;
	char image_id[72]; /* that it was made of; "" when claimed */
	char container[72];
	int made;            /* the engine was asked for the container */
	struct event *again; /* to look at the container once more, or to be ready */
	int looks;
	char lost[256];          /* what the session said */
	uint64_t snapshot;       /* whose tree is put in at the end; 0: none */
	int restore_fd;          /* its file; -1: none, or handed on */
	struct snap_bytes *held; /* until that is closed */
	int64_t size;
	uint8_t sha256[32];
	/* Exactly one of these, once, unless it is dropped before. text is fit for clients. */
	void (*ready)(struct bring *);
	void (*failed)(struct bring *, uint32_t status, const char *text);
	/* Before the engine is asked for a container: it must be on record. -1 with errno. NULL for
	 * members of the pool, which no record knows. */
	int (*record)(struct bring *);
};

/* The snapshot may be NULL. -1 with errno: its file cannot be opened. Nothing is started yet. */
int bring_init(struct bring *, struct box *, uint32_t generation, const struct snap *);
void bring_init_member(struct bring *, const struct spec *, uint64_t pool);
/* -1 with errno: it is not on record, nothing was started. No callback comes from within. */
int bring_start(struct bring *);
/* Its sandbox is on record with it: hands the session on; what was claimed gets its name. */
void bring_adopt(struct bring *);
/* Gives up: no callback comes. Ends the session if it is still the bring's; what is under the name
 * of a member of the pool is removed. */
void bring_drop(struct bring *, uint32_t reason);

#endif
