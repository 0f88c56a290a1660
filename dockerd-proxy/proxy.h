/* What the parts of dockerd-proxy share: the one engine, calls of it, and how requests of managerd
 * are answered. */
#ifndef DOCKERD_PROXY_PROXY_H
#define DOCKERD_PROXY_PROXY_H

#include <jansson.h>

#include "common/child.h"
#include "common/ids.h"
#include "common/log.h"
#include "common/uhttp.h"
#include "common/image_ref.h"
#include "proto/managerd_dockerd.h"

#define SOCKET_PATH "/docker.sock"
#define CALL_SECONDS 30
#define PULL_SECONDS 600
#define LABEL_INSTANCE "agent-sandbox.instance"
#define LABEL_KIND "agent-sandbox.kind"
#define LABEL_PREPARED "agent-sandbox.prepared"

struct event_base;

extern const struct confine confinement;
extern struct proxy {
	struct event_base *base;
	struct chan *manager;
	const struct config *config;
	char instance[40];     /* "" until managerd has told it */
	unsigned int uid, gid; /* SANDBOX_USER */
	int up;                /* the engine answers, and its containers of ours are known */
	int unsure;            /* up, but it may have become another one */
	int minor;             /* of the API version spoken: 1.minor */
	int64_t nano_cpus;     /* all that the engine's host has */
	int own_ipc;           /* it may set the kernel's settings for an IPC namespace */
	int sentry;            /* sandboxes have gVisor's kernel */
	char arch[32];         /* of its images */
} proxy;

/* main.c. image may be NULL. */
void reply_failed(uint64_t id, enum d_failure why, const char *image);
/* Logs an answer that was not what `what` needs, and says which failure it is. */
enum d_failure failure(const char *what, int status, json_t *answer);

/*
 * engine.c: a call of the engine; the path is what stands behind the API version. done() gets the
 * HTTP status, or 0 when there was no whole answer, and the answer if it is JSON, which is
 * borrowed. It is never called from within ask().
 */
typedef void (*engine_done)(void *arg, int status, json_t *answer);
struct engine_call {
	const char *method;
	json_t *json; /* the body; taken */
	const void *tar;
	size_t tar_len;
	int seconds;
	void (*line)(void *arg, json_t *); /* the answer is lines of JSON; may make no call */
	engine_done done;
	void *arg;
};
void engine_call(const struct engine_call *, const char *path, ...)
    __attribute__((format(printf, 2, 3)));
#define ask(m, body, fn, ptr, ...)                       \
	engine_call(&(struct engine_call){.method = (m), \
			.json = (body),                  \
			.seconds = CALL_SECONDS,         \
			.done = (fn),                    \
			.arg = (ptr)},                   \
	    __VA_ARGS__)
/* GET of a list, of what carries a label key=value (value NULL: any) and, unless they are NULL, has
 * one of two names. */
void ask_list(const char *path, const char *key, const char *value, const char *name,
    const char *other, engine_done, void *arg);
void *mem_new(size_t size);                            /* zeroed; free() it */
const char *text_at(json_t *, const char *key);        /* "" when it is not there */
const char *label_of(json_t *item, const char *label); /* "" too */
int id_valid(const char *id);                          /* 64 hex digits */
int image_id_valid(const char *id);                    /* "sha256:" and 64 hex digits */

/* connect.c */
void connect_start(void (*settled)(void)); /* settled(): once, when up or down is known */
void connect_instance(void);

/* image.c */
void image_prepare(uint64_t id, const struct m_d_prepare *, const char *name, size_t len);
int image_is_prepared(const char *image_id);
const char *image_any(void); /* one that is prepared, or NULL */
void image_seen(const char *image_id);
void helper_remove(const char *container);

/* owned.c: an id is known when we made it or saw it in a list filtered by our label. */
#define NAME_PREFIX "agent-sandbox-"
struct owned {
	struct owned *next;
	uint64_t sandbox; /* 0: a member of the pool, or nobody's */
	uint64_t pool;    /* the member that it is or was; or 0 */
	uint32_t generation;
	char counts;    /* as its sandbox: one container of each does */
	char leaving;   /* it is being removed */
	char attaching; /* attach.c is at work */
	char id[72];    /* "" while it is being made */
};
struct owned *owned_find(const char *id);
/* The one of a generation of a sandbox; with sandbox 0, that of a member of the pool. */
struct owned *owned_named(uint64_t sandbox, uint32_t generation, uint64_t pool);
struct owned *owned_new(const char *id, uint64_t sandbox, uint32_t generation, uint64_t pool);
/* A member of the pool is this sandbox's from now on. */
void owned_claim(struct owned *, uint64_t sandbox, uint32_t generation);
/* Its removal has begun, or has failed. */
void owned_leaving(struct owned *, int leaving);
void owned_forget(struct owned *);
/* Whether one more container of this sandbox (0: of the pool) is too many. */
int owned_full(uint64_t sandbox);
int ours(json_t *item, const char *name);
const char *name_of(json_t *item); /* of a container in a list */
enum container_state state_of(json_t *inspected);
/*
 * Makes known what the engine holds of ours, then done(). With report D_ITEM goes out for each;
 * without, helpers that an earlier connection left are removed.
 */
void owned_list(int report, uint64_t id, void (*done)(uint64_t id, int status));

/* container.c */
/* names: its hosts file's, each with a loopback address of its own; joined by '\n'. */
void container_create(uint64_t id, const struct m_d_create *, const char *names, size_t len);
void container_destroy(uint64_t id, struct owned *or_null, const struct m_d_destroy *);
void container_inspect(uint64_t id, const char *container);

/* member.c: what is asked about members of the pool alone */
void member_update(uint64_t id, struct owned *, const struct m_d_update *);
void member_rename(uint64_t id, struct owned *, const struct m_d_rename *);
/* "agent-sandbox-sb_<id>-<generation>", or of a member of the pool (sandbox 0). */
#define OWN_NAME_MAX 64
void name_make(char name[OWN_NAME_MAX], uint64_t sandbox, uint32_t generation, uint64_t pool);
/* The opposite: 0, or -1. Of a member sandbox is 0, of a sandbox pool. */
int name_parse(const char *name, uint64_t *sandbox, uint32_t *generation, uint64_t *pool);

/* attach.c */
void attach_start(uint64_t id, struct owned *);
void attach_abort(void);

/* body.c: the only bodies that exist, from typed fields. */
json_t *body_sandbox(const struct m_d_create *, const char *volume, const char *names, size_t len);
json_t *body_sweeper(const struct m_d_create *, const char *volume); /* empties /workspace */
json_t *body_update(const struct m_d_update *);
json_t *body_helper(const char *base_id);
json_t *body_commit(const char *key);
json_t *body_volume(const struct m_d_create *, const char *name);
json_t *body_network(void);

/* embed.c */
extern const char embed_init[], embed_seccomp[], embed_seccomp_sentry[], embed_init_sha256[];
extern const uint64_t embed_init_size;
void *tar_make(size_t *len); /* a ustar of what a prepared image has more; free() it */

#endif
