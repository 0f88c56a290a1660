/*
 * The client of dockerd-proxy: typed calls with one answer each, whether the engine is there, and
 * what is to be removed there (wrecks), which is tried again until the engine has confirmed it.
 */
#ifndef MANAGERD_ENGINE_H
#define MANAGERD_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#include "proto/managerd_dockerd.h"

struct box;
struct spec;
struct tenant;

struct answer {
	int failed;
	enum d_failure why; /* when failed */
	const char *text;   /* when failed: fit for clients */
	const struct m_d_prepared *prepared;
	const char *container; /* created, attached */
	uint32_t state;        /* of D_INSPECT: enum container_state */
	int foreign_workspace; /* of D_INSPECT: PID 1 did not take the image's /workspace */
	int fd;                /* attached: the callback's to keep */
};

/* Exactly once for each call that was not dropped. The caller's call is over when it runs. */
typedef void (*engine_done)(void *arg, const struct answer *);

void engine_start(void); /* D_INSTANCE; then a ping once a second */
void engine_message(struct chan *, struct msg *);
int engine_up(void);
const char *engine_why(void); /* why it is down, for clients */
int engine_hard_quota(void);
/* Calls fn(arg, up) after a ping that is sent from now on, or at once from memory when asked too
 * often; within 1.9 s. */
void engine_probe(void (*fn)(uint64_t, int), uint64_t arg);

/* The tenant is the one that waits; NULL: none. local: it is not pulled. */
void engine_prepare(const char *image, const struct tenant *, int local, engine_done, void *arg);
/* Its name, image and volume are in m; what it is to be like, in spec. */
void engine_create(const struct m_d_create *m, const struct spec *spec, engine_done, void *arg);
void engine_attach(const char *container, engine_done, void *arg);
void engine_inspect(const char *container, engine_done, void *arg);
/* Members of the pool: other limits; the name of the sandbox that claimed one. */
void engine_update(const struct m_d_update *, engine_done, void *arg);
void engine_rename(const char *container, const struct box *, engine_done, void *arg);
/* Calls item for each thing the engine has of ours, then done. */
void engine_list(void (*item)(const struct m_d_item *), engine_done, void *arg);
/* Forgets the callbacks of arg's calls. What a late D_CREATE makes is removed; a late stream is
 * closed. */
void engine_drop(const void *arg);
/* Whether an attach to it, dropped or not, is not answered yet: dockerd-proxy takes no second one.
 */
int engine_attaching(const char *container);
/* Whether a rename of it is not answered yet: nothing else is asked about it before. */
int engine_renaming(const char *container);
/* Nobody waits for what arg has asked for. */
void engine_background(const void *arg);
/* Whether a client waits for a sandbox that the engine is making or starting. */
int engine_busy(void);
/* How many calls are not answered. */
size_t engine_calls_open(void);
/* The HTTP status for a failure. */
uint32_t engine_status(enum d_failure);

/*
 * Removes container and volume of one generation, again and again until the engine has confirmed
 * it, also after its own late answers. done(arg, 0) then; before that, once, done(arg, 1) if the
 * first try fails or the engine is away. done may be NULL. Keeps an entry for each (sandbox,
 * generation, member of the pool); asking again for one replaces its callback.
 */
struct wreckage {
	uint64_t sandbox; /* 0: a member of the pool that no sandbox has */
	uint64_t pool;    /* the member that it is or was; or 0 */
	uint32_t generation;
};
static inline int
wreckage_same(const struct wreckage *a, const struct wreckage *b)
{
	return a->sandbox == b->sandbox && a->pool == b->pool && a->generation == b->generation;
}
typedef void (*wreck_done)(void *arg, int failed);
void wreck_add(const struct wreckage *, const char *container, wreck_done, void *arg);
/* The same, for what nobody waits for and what does nothing any more: when it is quiet, or soon all
 * the same. */
void wreck_add_later(const struct wreckage *, const char *container, wreck_done, void *arg);
/* There are so many places, and so many of them are used: what waits takes no more than the rest.
 */
void wreck_room(size_t places, size_t used);
/* The server is going down: nothing waits any more. */
void wreck_hurry(void);
/* done() of this arg is not called any more. */
void wreck_forget(const void *arg);
int wreck_known(const struct wreckage *);
/* How many members of the pool are still to be removed. */
size_t wreck_pool(void);

/* wreck.c and engine.c only */
void wreck_late(const struct wreckage *, const char *container);
void wreck_engine(int up);
void wreck_tick(void);
int engine_creating(const struct wreckage *);
void engine_destroy(const struct m_d_destroy *, engine_done, void *arg);
/* As engine_destroy(), but a call like the others: tried once, and it can be dropped. */
void engine_take_away(const struct m_d_destroy *, engine_done, void *arg);

/* engine_calls.c, for engine.c */
uint64_t engine_next_id(void);
void engine_calls_fail(void); /* the engine is away */
void engine_answer(struct msg *);
void engine_item(struct msg *);
/* answer.c */
int answer_fits(uint32_t call, uint32_t type);
void answer_read(struct msg *, struct answer *);
void answer_container(const char *id);

#endif
