/* What the parts of dockerd-proxy share: the state of one engine, and how requests of managerd are
 * answered. */
#ifndef DOCKERD_PROXY_PROXY_H
#define DOCKERD_PROXY_PROXY_H

#include <jansson.h>

#include "common/child.h"
#include "common/ids.h"
#include "common/log.h"
#include "dockerd-proxy/policy.h"
#include "proto/managerd_dockerd.h"

#define SOCKET_PATH "/docker.sock"
#define CALL_SECONDS 30
#define PULL_SECONDS 600

struct event_base;

extern struct proxy {
	struct event_base *base;
	struct chan *manager;
	const struct config *config;
	char instance[40]; /* "" until managerd has told it */
	uint32_t uid;      /* SANDBOX_USER */
	uint32_t gid;
	int up;            /* the engine answers, and its containers of ours are listed */
	int minor;         /* of the API version spoken: 1.minor */
	int64_t nano_cpus; /* all that the engine's host has */
	char arch[32];     /* of its images */
} proxy;

/* main.c */
void reply_failed(uint64_t id, enum d_failure why, const char *image); /* image may be NULL */
/* The engine's answer, status 0 for none, was not what `what` needs: logs it and answers with a
 * fixed text. */
void reply_engine(uint64_t id, const char *what, int status, json_t *answer);
void log_answer(const char *what, int status, json_t *answer);

/*
 * engine.c: one HTTP call. path begins with "/" behind the API version. The body is JSON (taken,
 * may be NULL) or a tar. done() is called once, never from within engine_call(), with the HTTP
 * status or 0 when there was no whole answer, and the parsed body or NULL, which is borrowed.
 */
typedef void (*engine_done)(void *arg, int status, json_t *answer);
struct engine_call {
	const char *method;
	json_t *json;
	const void *tar;
	size_t tar_len;
	int seconds;                       /* deadline; 0: none */
	void (*line)(void *arg, json_t *); /* the answer is lines of JSON; may make no call */
	engine_done done;
	void *arg;
};
void engine_init(void);
void engine_call(const struct engine_call *, const char *path, ...)
    __attribute__((format(printf, 2, 3)));
void
engine_get(engine_done, void *arg, const char *path, ...) __attribute__((format(printf, 3, 4)));
void engine_abort(void); /* all that wait are done, with status 0 */
size_t engine_calls(void);
int engine_socket(void); /* connected by hand, for an attach; or -1 with errno */
/* {"label":["key=value"]} and, if name is not NULL, "name":[name], fit for a query; free() it. */
char *engine_filter(const char *key, const char *value, const char *name);

/* connect.c */
void connect_start(void (*settled)(void)); /* settled(): once, when up or down is known */
void connect_instance(void);
void connect_lost(const char *why);
void connect_send_state(void);

/* image.c */
void image_prepare(uint64_t id, const char *name, size_t len);
int image_is_prepared(const char *image_id);
void image_seen(const char *image_id);

/* container.c: what is ours. An id is known when we made it or saw it in a list filtered by our
 * label. */
struct owned {
	struct owned *next;
	uint64_t sandbox;
	uint32_t generation;
	char id[CONTAINER_ID_LEN + 1]; /* "" while it is being made */
	char second;                   /* its sandbox has an older one */
	char attaching;
};
struct owned *owned_find(const char *id);
/* Makes an id from a list known. NULL when it is one that is being made. */
struct owned *owned_add(const char *id, uint64_t sandbox, uint32_t generation);
void container_create(uint64_t id, const struct m_d_create *);
void container_destroy(uint64_t id, const struct m_d_destroy *);
void container_inspect(uint64_t id, const struct m_d_container *);
int id_valid(const char *id); /* 64 hex digits; NULL is not */
int name_parse(const char *name, uint64_t *sandbox, uint32_t *generation);
enum container_state state_parse(const char *);

/*
 * list.c: makes known what the engine holds of ours, then done(). With report D_ITEM goes out for
 * each; without, helpers that an earlier connection left are removed.
 */
void list_all(int report, uint64_t id, void (*done)(uint64_t id, int status));

int list_ours(json_t *item, const char *name);

/* attach.c */
void attach_start(uint64_t id, struct owned *);
void attach_abort(void);
/* The status line and length of an HTTP head at p[0..n): 1, 0 when more is needed, -1 when it is
 * none. */
int head_parse(const char *p, size_t n, int *status, size_t *len);

/* events.c */
void events_start(int64_t since_ns);

/* body.c: the only bodies that exist, from typed fields. */
json_t *body_sandbox(const struct m_d_create *, const char *name);
json_t *body_helper(const char *base_id);
json_t *body_commit(const char *key);
json_t *body_volume(const char *name);
json_t *body_network(void);
void limits_clamp(struct m_d_create *);

/* embed.c */
extern const unsigned char embed_init[], embed_init_end[];
extern const char embed_seccomp[], embed_seccomp_end[], embed_init_sha256[];
void *
tar_make(size_t *len); /* a ustar of what a prepared image has more than its base; free() it */

#endif
