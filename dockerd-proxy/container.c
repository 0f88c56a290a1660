/* Containers of sandboxes: made in one shape with their volume, looked at, and removed with all
 * that belongs to them. */
#include "dockerd-proxy/proxy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <bsd/string.h>
#include <event2/event.h>

#include "proto/guest.h"

#define REMOVE_SECONDS 30 /* how long "in use" and "in progress" are waited for */

static struct owned *owned;

int
id_valid(const char *id)
{
	return id != NULL && strlen(id) == CONTAINER_ID_LEN &&
	       strspn(id, "0123456789abcdef") == CONTAINER_ID_LEN;
}

struct owned *
owned_find(const char *id)
{
	for (struct owned *o = owned; o != NULL; o = o->next)
		if (id[0] != '\0' && strcmp(o->id, id) == 0)
			return o;
	return NULL;
}

static struct owned *
owned_new(const char *id, uint64_t sandbox, uint32_t generation)
{
	struct owned *o = calloc(1, sizeof(*o));

	if (o == NULL)
		fatal("malloc");
	o->sandbox = sandbox;
	o->generation = generation;
	strlcpy(o->id, id, sizeof(o->id));
	for (struct owned *other = owned; other != NULL; other = other->next)
		o->second |= other->sandbox == sandbox;
	o->next = owned;
	return owned = o;
}

struct owned *
owned_add(const char *id, uint64_t sandbox, uint32_t generation)
{
	struct owned *o = owned_find(id);

	if (o != NULL)
		return o;
	for (o = owned; o != NULL; o = o->next)
		if (o->id[0] == '\0' && o->sandbox == sandbox && o->generation == generation)
			return NULL;
	return owned_new(id, sandbox, generation);
}

static void
owned_forget(struct owned *gone)
{
	struct owned **o = &owned, *sibling = NULL;

	while (*o != gone)
		o = &(*o)->next;
	*o = gone->next;
	for (sibling = owned; sibling != NULL && sibling->sandbox != gone->sandbox;)
		sibling = sibling->next;
	if (sibling != NULL && !gone->second)
		sibling->second = 0;
	free(gone);
}

/* MAX_SANDBOXES of them, and of each at most two containers: the second is that of a rollback. */
static int
owned_full(uint64_t sandbox)
{
	int64_t others = 0, same = 0;

	for (struct owned *o = owned; o != NULL; o = o->next) {
		same += o->sandbox == sandbox;
		others += o->sandbox != sandbox && !o->second;
	}
	return same >= 2 || (same == 0 && others >= proxy.config->num[CFG_MAX_SANDBOXES]);
}

/* A create, or a removal: what a create had begun when it failed is removed by the same steps. */
struct job {
	uint64_t id;
	struct m_d_create create;
	struct owned *owned; /* of a create */
	enum d_failure why;  /* the create failed: said when the rest is gone */
	int failed;
	char name[64]; /* of container and volume; "" when the sandbox is not known */
	char container[CONTAINER_ID_LEN + 1];
	int keep_volume;
	int64_t until;
	struct event *again;
};

static struct job *
job_new(uint64_t id, uint64_t sandbox, uint32_t generation)
{
	struct job *j = calloc(1, sizeof(*j));
	char text[ID_TEXT_MAX];

	if (j == NULL)
		fatal("malloc");
	j->id = id;
	if (sandbox != 0)
		snprintf(j->name, sizeof(j->name), "agent-sandbox-%s-%u",
		    id_text(text, "sb_", sandbox), generation);
	return j;
}

static void
job_free(struct job *j)
{
	if (j->again != NULL)
		event_free(j->again);
	free(j);
}

static void
remove_end(struct job *j, int status, json_t *answer)
{
	struct owned *o = j->owned != NULL ? j->owned : owned_find(j->container);

	if (j->failed)
		reply_failed(j->id, j->why, NULL);
	else if (status == 204 || status == 404)
		send_D_DONE(proxy.manager, j->id, &(struct m_d_none){0}, NULL, 0, -1);
	else
		reply_engine(j->id, "remove", status, answer);
	if (o != NULL && (j->failed || status == 204 || status == 404))
		owned_forget(o);
	job_free(j);
}

/* 1 when the same call is made again in a moment. */
static int
remove_retry(struct job *j, int status, event_callback_fn again)
{
	if (status != 409 || time_boot_us() > j->until)
		return 0;
	if (j->again != NULL)
		event_free(j->again);
	if ((j->again = evtimer_new(proxy.base, again, j)) == NULL)
		fatalx("evtimer_new");
	evtimer_add(j->again, &(struct timeval){.tv_usec = 100000});
	return 1;
}

static void remove_volume(evutil_socket_t, short, void *);
static void remove_container(evutil_socket_t, short, void *);

static void
on_volume_removed(void *arg, int status, json_t *answer)
{
	struct job *j = arg;

	if (!remove_retry(j, status, remove_volume))
		remove_end(j, status, answer);
}

static void
on_volume_found(void *arg, int status, json_t *answer)
{
	struct job *j = arg;
	json_t *item;
	size_t i;

	json_array_foreach (json_object_get(answer, "Volumes"), i, item) {
		const char *name = json_string_value(json_object_get(item, "Name"));
		if (status == 200 && list_ours(item, name) && strcmp(name, j->name) == 0) {
			engine_call(&(struct engine_call){.method = "DELETE",
					.arg = j,
					.seconds = CALL_SECONDS,
					.done = on_volume_removed},
			    "/volumes/%s", j->name);
			return;
		}
	}
	remove_end(j, status == 200 ? 404 : status, answer);
}

static void
remove_volume(
    evutil_socket_t fd __attribute__((unused)), short what __attribute__((unused)), void *arg)
{
	struct job *j = arg;
	char *filter;

	if (j->keep_volume || j->name[0] == '\0') {
		remove_end(j, 204, NULL);
		return;
	}
	filter = engine_filter("agent-sandbox.instance", proxy.instance, j->name);
	engine_get(on_volume_found, j, "/volumes?filters=%s", filter);
	free(filter);
}

static void
on_container_removed(void *arg, int status, json_t *answer)
{
	struct job *j = arg;

	if (remove_retry(j, status, remove_container))
		return;
	if (status == 204 || status == 404)
		remove_volume(-1, 0, j);
	else
		remove_end(j, status, answer);
}

static void
remove_container(
    evutil_socket_t fd __attribute__((unused)), short what __attribute__((unused)), void *arg)
{
	struct job *j = arg;

	engine_call(&(struct engine_call){.method = "DELETE",
			.seconds = CALL_SECONDS,
			.arg = j,
			.done = on_container_removed},
	    "/containers/%s?force=1&v=1", j->container);
}

/* A container whose id managerd never learned is found by its name, among ours. */
static void
on_container_found(void *arg, int status, json_t *answer)
{
	struct job *j = arg;
	json_t *item;
	size_t i;

	if (status != 200) {
		remove_end(j, status, answer);
		return;
	}
	json_array_foreach (answer, i, item) {
		const char *id = json_string_value(json_object_get(item, "Id"));
		const char *name =
		    json_string_value(json_array_get(json_object_get(item, "Names"), 0));
		if (name != NULL && list_ours(item, name + 1) && strcmp(name + 1, j->name) == 0 &&
		    id_valid(id))
			strlcpy(j->container, id, sizeof(j->container));
	}
	if (j->container[0] != '\0')
		remove_container(-1, 0, j);
	else
		remove_volume(-1, 0, j);
}

static void
remove_start(struct job *j)
{
	char *filter;

	j->until = time_boot_us() + REMOVE_SECONDS * 1000000LL;
	if (j->container[0] != '\0' || j->name[0] == '\0') {
		if (j->container[0] != '\0')
			remove_container(-1, 0, j);
		else
			remove_end(j, 404, NULL);
		return;
	}
	filter = engine_filter("agent-sandbox.instance", proxy.instance, j->name);
	engine_get(on_container_found, j, "/containers/json?all=1&filters=%s", filter);
	free(filter);
}

void
container_destroy(uint64_t id, const struct m_d_destroy *m)
{
	struct job *j = job_new(id, m->sandbox, m->generation);

	j->keep_volume = m->keep_volume;
	strlcpy(j->container, m->container, sizeof(j->container));
	remove_start(j);
}

/* The engine may still do what it was asked when it has not answered: then managerd removes it
 * later. */
static void
create_failed(struct job *j, const char *what, int status, json_t *answer)
{
	log_answer(what, status, answer);
	j->failed = 1;
	j->why = status == 0 ? FAIL_UNREACHABLE : status == 404 ? FAIL_NO_IMAGE : FAIL_ENGINE;
	if (status == 0)
		remove_end(j, 0, NULL);
	else
		remove_start(j);
}

static void
on_created(void *arg, int status, json_t *answer)
{
	struct job *j = arg;
	const char *id = json_string_value(json_object_get(answer, "Id"));
	struct m_d_container created = {0};

	if (status == 201 && id_valid(id))
		strlcpy(j->container, id, sizeof(j->container));
	/* A warning says that a limit was dropped. */
	if (status != 201 || !id_valid(id) ||
	    json_array_size(json_object_get(answer, "Warnings")) != 0) {
		create_failed(j, "create a container", status == 201 ? 500 : status, answer);
		return;
	}
	strlcpy(j->owned->id, id, sizeof(j->owned->id));
	strlcpy(created.container, id, sizeof(created.container));
	send_D_CREATED(proxy.manager, j->id, &created, NULL, 0, -1);
	job_free(j);
}

/* The engine answers with the old volume if there is one: it must be ours. */
static void
on_volume(void *arg, int status, json_t *answer)
{
	struct job *j = arg;

	if (status != 201 || !list_ours(answer, j->name)) {
		create_failed(
		    j, "create a volume", status == 201 || status == 404 ? 500 : status, answer);
		return;
	}
	engine_call(&(struct engine_call){.method = "POST",
			.seconds = CALL_SECONDS,
			.arg = j,
			.json = body_sandbox(&j->create, j->name),
			.done = on_created},
	    "/containers/create?name=%s", j->name);
}

static void
create_volume(struct job *j)
{
	engine_call(&(struct engine_call){.method = "POST",
			.seconds = CALL_SECONDS,
			.arg = j,
			.json = body_volume(j->name),
			.done = on_volume},
	    "/volumes/create");
}

static void
on_network_made(void *arg, int status, json_t *answer)
{
	if (status == 201 || status == 409) /* 409: somebody else was quicker */
		create_volume(arg);
	else
		create_failed(arg, "create the network", status == 404 ? 500 : status, answer);
}

/* A bridge on which sandboxes could reach each other is not used, whoever made it. */
static void
on_network(void *arg, int status, json_t *answer)
{
	struct job *j = arg;
	json_t *options = json_object_get(answer, "Options");
	const char *driver = json_string_value(json_object_get(answer, "Driver"));
	const char *icc =
	    json_string_value(json_object_get(options, "com.docker.network.bridge.enable_icc"));

	if (status == 404) {
		engine_call(&(struct engine_call){.method = "POST",
				.seconds = CALL_SECONDS,
				.arg = j,
				.json = body_network(),
				.done = on_network_made},
		    "/networks/create");
	} else if (status == 200 && driver != NULL && strcmp(driver, "bridge") == 0 &&
		   icc != NULL && strcmp(icc, "false") == 0) {
		create_volume(j);
	} else {
		if (status == 200)
			log_warnx("network %s is not a bridge with enable_icc=false: remove it",
			    proxy.config->str[CFG_NETWORK_NAME]);
		create_failed(j, "look at the network", status == 200 ? 500 : status, answer);
	}
}

void
container_create(uint64_t id, const struct m_d_create *m)
{
	struct job *j;

	for (struct owned *o = owned; o != NULL; o = o->next)
		if (o->sandbox == m->sandbox && o->generation == m->generation)
			fatalx("managerd: creates a container that there is");
	if (m->network && !proxy.config->num[CFG_ALLOW_NETWORK]) {
		reply_failed(id, FAIL_FORBIDDEN, NULL);
		return;
	}
	if (owned_full(m->sandbox)) {
		reply_failed(id, FAIL_LIMIT, NULL);
		return;
	}
	j = job_new(id, m->sandbox, m->generation);
	j->create = *m;
	j->keep_volume = m->keep_volume;
	limits_clamp(&j->create);
	j->owned = owned_new("", m->sandbox, m->generation);
	if (m->network)
		engine_get(on_network, j, "/networks/%s", proxy.config->str[CFG_NETWORK_NAME]);
	else
		create_volume(j);
}

static void
on_inspected(void *arg, int status, json_t *answer)
{
	uint64_t *id = arg;
	json_t *state = json_object_get(answer, "State");
	struct m_d_state m = {0};

	if (status != 200 && status != 404) {
		reply_engine(*id, "inspect", status, answer);
	} else {
		const char *container = json_string_value(json_object_get(answer, "Id"));
		strlcpy(m.container, container != NULL ? container : "", sizeof(m.container));
		m.state = state_parse(json_string_value(json_object_get(state, "Status")));
		m.oom = json_is_true(json_object_get(state, "OOMKilled"));
		m.foreign_workspace =
		    m.state == STATE_EXITED &&
		    json_integer_value(json_object_get(state, "ExitCode")) == GUEST_EXIT_WORKSPACE;
		send_D_STATE(proxy.manager, *id, &m, NULL, 0, -1);
	}
	free(id);
}

void
container_inspect(uint64_t id, const struct m_d_container *m)
{
	uint64_t *arg = malloc(sizeof(*arg));

	if (arg == NULL)
		fatal("malloc");
	*arg = id;
	engine_get(on_inspected, arg, "/containers/%s/json", m->container);
}
