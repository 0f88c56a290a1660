/* dockerd-proxy: turns managerd's typed requests into the closed list of engine calls, and nothing
 * else. */
#include "dockerd-proxy/proxy.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <bsd/stdlib.h>
#include <bsd/string.h>
#include <event2/event.h>

#include "common/egress.h"
#include "common/chan_event.h"
#include "common/pool_list.h"
#include "proto/parent.h"

#define REQUESTS_MAX 1024 /* engine calls at once */
#define PING_SECONDS 2

struct proxy proxy;
static struct child child;
static struct chan *parent;

/* One text a class: what the engine itself said is for the log. */
void
reply_failed(uint64_t id, enum d_failure why, const char *image)
{
	static const char *const texts[] = {
	    [FAIL_UNREACHABLE] = "the container engine does not answer",
	    [FAIL_ENGINE] = "the container engine reported an error",
	    [FAIL_NO_IMAGE] = "image %s is not available: it is not here and could not be pulled",
	    [FAIL_BAD_IMAGE] =
		"image %s cannot be used: not a valid name, or not made for this machine",
	    [FAIL_FORBIDDEN] = "image %s is not allowed on this server",
	    [FAIL_LIMIT] = "too many sandboxes",
	    [FAIL_GONE] = "no such container",
	};
	struct m_d_failed m = {.why = why};
	char text[D_TEXT_MAX];

	if (why == FAIL_FORBIDDEN && image == NULL)
		strlcpy(text, "network is not allowed on this server", sizeof(text));
	else
		snprintf(text, sizeof(text), texts[why], image != NULL ? image : "of the sandbox");
	send_D_FAILED(proxy.manager, id, &m, text, strlen(text), -1);
}

enum d_failure
failure(const char *what, int status, json_t *answer)
{
	const char *text = text_at(answer, "message");

	if (text[0] == '\0' && json_object_get(answer, "Warnings") != NULL)
		text = json_string_value(json_array_get(json_object_get(answer, "Warnings"), 0));
	log_warnx(
	    "container engine: %s: status %d: %.500s", what, status, text != NULL ? text : "");
	return status == 0 ? FAIL_UNREACHABLE : FAIL_ENGINE;
}

/* No id is acted on but one that the engine itself gave us. */
static struct owned *
known(const char container[72])
{
	struct owned *o;

	if (memchr(container, '\0', 72) == NULL || (o = owned_find(container)) == NULL)
		fatalx("managerd: a container that is not known");
	return o;
}

/* While the engine is down, and beyond a bound of what waits for it, nothing is begun. */
static int
refused(uint64_t id)
{
	int usable = proxy.up && !proxy.unsure;

	if (usable && uhttp_calls() < REQUESTS_MAX)
		return 0;
	reply_failed(id, usable ? FAIL_LIMIT : FAIL_UNREACHABLE, NULL);
	return 1;
}

#define CASE_MANAGERD(name, pay) CHAN_CASE(name, pay)
#define CASE_DOCKERD_PROXY(name, pay)
#define HANDLER_MANAGERD(name, pay) CHAN_HANDLER(name, pay)
#define HANDLER_DOCKERD_PROXY(name, pay)
MANAGERD_DOCKERD(CHAN_X_HANDLER)

static void
on_D_INSTANCE(struct chan *c, const struct m_d_instance *p, struct msg *m)
{
	(void)c, (void)m;
	if (proxy.instance[0] != '\0' || memchr(p->uuid, '\0', sizeof(p->uuid)) == NULL ||
	    strlen(p->uuid) != 36 || strspn(p->uuid, "0123456789abcdef-") != 36)
		fatalx("managerd: bad instance");
	memcpy(proxy.instance, p->uuid, sizeof(proxy.instance));
	connect_instance();
}

static void
on_D_PREPARE(struct chan *c, const struct m_d_prepare *p, struct msg *m)
{
	(void)c;
	if (p->local > 1)
		fatalx("managerd: bad prepare");
	image_prepare(m->id, p, m->tail, m->tail_len);
}

/* A sandbox; one on the volume of the member that it once was; or a member of the pool. */
static int
create_valid(const struct m_d_create *p)
{
	if (p->network > 1 || p->read_only > 1 || p->keep_volume > 1 ||
	    memchr(p->image_id, '\0', sizeof(p->image_id)) == NULL)
		return 0;
	if (p->sandbox != 0)
		return p->pool == 0 || p->keep_volume;
	return p->pool != 0 && p->generation == 0 && !p->network && !p->keep_volume;
}

/* Exact names, and only where no network answers for names. */
static int
names_valid(const struct m_d_create *p, const char *names, size_t len)
{
	struct egress_walk walk = {names, len, 0};
	struct egress_entry e;

	while (egress_next(&walk, &e) == 1)
		if (p->network || e.kind != EGRESS_HOST || e.port != 0)
			return 0;
	return egress_list_valid(names, len);
}

static void
on_D_CREATE(struct chan *c, const struct m_d_create *p, struct msg *m)
{
	(void)c;
	if (!create_valid(p) || !names_valid(p, m->tail, m->tail_len))
		fatalx("managerd: bad create");
	if (!image_is_prepared(p->image_id))
		fatalx("managerd: an image that was not prepared");
	container_create(m->id, p, m->tail, m->tail_len);
}

static void
on_D_ATTACH(struct chan *c, const struct m_d_container *p, struct msg *m)
{
	(void)c;
	attach_start(m->id, known(p->container));
}

static void
on_D_INSPECT(struct chan *c, const struct m_d_container *p, struct msg *m)
{
	(void)c;
	container_inspect(m->id, known(p->container)->id);
}

static void
on_D_DESTROY(struct chan *c, const struct m_d_destroy *p, struct msg *m)
{
	(void)c;
	if (p->keep_volume > 1)
		fatalx("managerd: bad destroy");
	container_destroy(m->id,
	    p->container[0] != '\0' ? known(p->container)
				    : owned_named(p->sandbox, p->generation, p->pool),
	    p);
}

/* Of the pool, and claimed by nobody yet. */
static struct owned *
member(const char container[72])
{
	struct owned *o = known(container);

	if (o->pool == 0 || o->sandbox != 0)
		fatalx("managerd: a container that is not of the pool");
	return o;
}

static void
on_D_UPDATE(struct chan *c, const struct m_d_update *p, struct msg *m)
{
	(void)c;
	member_update(m->id, member(p->container), p);
}

static void
on_D_RENAME(struct chan *c, const struct m_d_rename *p, struct msg *m)
{
	(void)c;
	if (p->sandbox == 0)
		fatalx("managerd: bad rename");
	member_rename(m->id, member(p->container), p);
}

static void
on_listed(uint64_t id, int status)
{
	if (status == 200)
		send_D_LIST_END(proxy.manager, id, &(struct m_d_none){0}, NULL, 0, -1);
	else
		reply_failed(id, failure("list", status, NULL), NULL);
}

static void
on_D_LIST(struct chan *c, const struct m_d_none *p, struct msg *m)
{
	(void)c, (void)p;
	owned_list(1, m->id, on_listed);
}

static uint64_t ping_id;

static void
on_pinged(void *arg, int status, json_t *answer)
{
	(void)arg;
	if (status == 200)
		send_D_DONE(proxy.manager, ping_id, &(struct m_d_none){0}, NULL, 0, -1);
	else
		reply_failed(ping_id, failure("ping", status, answer), NULL);
	ping_id = 0;
}

static void
on_D_PING(struct chan *c, const struct m_d_none *p, struct msg *m)
{
	const struct engine_call ping = {
	    .method = "GET", .seconds = PING_SECONDS, .done = on_pinged};

	(void)c, (void)p;
	if (ping_id != 0 || m->id == 0)
		fatalx("managerd: a second ping");
	if (!proxy.unsure && refused(m->id))
		return;
	ping_id = m->id;
	engine_call(&ping, "/_ping");
}

static void
dispatch(struct chan *c, struct msg *m)
{
	if (proxy.instance[0] == '\0' && m->type != MSG_D_INSTANCE)
		fatalx("managerd: a request before its instance");
	/* Those two see for themselves. */
	if (m->type != MSG_D_INSTANCE && m->type != MSG_D_PING && refused(m->id))
		return;
	switch (m->type) {
		MANAGERD_DOCKERD(CHAN_X_CASE)
	}
}

static void
manager_gone(struct chan *c)
{
	(void)c;
	/* The parent says why. */
	log_debug("managerd is gone, so am I");
	exit(0);
}

static void
on_settled(void)
{
	child_ready(&child, parent);
}

/* "1000:1000": both from 1 to what a tar header can say. */
static void
user_parse(const char *text)
{
	char uid[32];
	const char *wrong, *gid = strchr(text, ':');

	if (gid == NULL || strspn(text, "0123456789:") != strlen(text) ||
	    gid - text >= (int)sizeof(uid))
		fatal_config("SANDBOX_USER: must be uid:gid");
	strlcpy(uid, text, (size_t)(gid - text) + 1);
	proxy.uid = (unsigned int)strtonum(uid, 1, 2097151, &wrong);
	if (wrong == NULL)
		proxy.gid = (unsigned int)strtonum(gid + 1, 1, 2097151, &wrong);
	if (wrong != NULL)
		fatal_config("SANDBOX_USER: uid and gid must be from 1 to 2097151");
}

int
main(void)
{
	child_setup(&child, "dockerd-proxy", 1);
	proxy.config = &child.config;
	user_parse(child.config.str[CFG_SANDBOX_USER]);
	if ((proxy.base = event_base_new()) == NULL)
		fatalx("event_base_new");
	json_object_seed(0); /* reads /dev/urandom */
	uhttp_init(proxy.base, SOCKET_PATH,
	    1048576 +
		8192 * (size_t)(child.config.num[CFG_MAX_SANDBOXES] + pool_kept(&child.config)));
	child_confine(&child, &confinement);
	parent = child_run(&child, proxy.base, &parent_child_proto, NULL);
	proxy.manager = chan_event_new(proxy.base, FD_PEER, &managerd_dockerd_proto, DOCKERD_PROXY,
	    MANAGERD, dispatch, manager_gone, NULL);
	connect_start(on_settled);
	event_base_dispatch(proxy.base);
	fatalx("event loop ended");
}
