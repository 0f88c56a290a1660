/*
 * Containers of sandboxes with their volumes: made in one shape, looked at, removed with all that
 * belongs to them. A volume that the engine fails to remove, since its folders lie deeper than the
 * engine has descriptors, is emptied from inside first: by one more container of that shape, whose
 * init does only that.
 */
#include "dockerd-proxy/proxy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <bsd/string.h>
#include <event2/event.h>

#include "proto/guest.h"

#define REMOVE_SECONDS 30 /* "in use" and "in progress" are waited for */
#define SWEEP_SECONDS 300

/* A create or a removal, step by step. A create that fails goes on as the removal of what there is
 * of it. */
enum step {
	FIND_NETWORK,
	MAKE_NETWORK,
	KEEP_VOLUME,
	MAKE_VOLUME,
	MAKE_CONTAINER,
	FIND_CONTAINER,
	REMOVE_CONTAINER,
	FIND_VOLUME,
	REMOVE_VOLUME,
	MAKE_SWEEPER,
	START_SWEEPER,
	WAIT_SWEEPER,
};

struct job {
	uint64_t id;
	enum step step;
	struct m_d_create create;
	char *names; /* for its hosts file */
	size_t names_len;
	struct owned *owned; /* of a create */
	int failed;          /* the create has, and why: said when what it made is gone */
	enum d_failure why;
	int swept;
	int searched;              /* by its name, too */
	char name[OWN_NAME_MAX];   /* of the container; "" when the sandbox is not known */
	char volume[OWN_NAME_MAX]; /* its name, and perhaps still that of the container */
	char container[72];        /* the sandbox's; "" when its id is not known */
	char at[72];               /* that which is worked on: the same one, or a sweeper */
	int64_t until;             /* when 409 is waited for no longer */
	struct event *again;
};

static void on_step(void *, int, json_t *);

static void
step(struct job *j, enum step next)
{
	const char *former = strcmp(j->name, j->volume) != 0 ? j->volume : NULL;

	j->step = next;
	switch (next) {
	case FIND_NETWORK:
		ask("GET", NULL, on_step, j, "/networks/%s", proxy.config->str[CFG_NETWORK_NAME]);
		break;
	case MAKE_NETWORK:
		ask("POST", body_network(), on_step, j, "/networks/create");
		break;
	case KEEP_VOLUME:
	case FIND_VOLUME:
		ask_list("/volumes?", LABEL_INSTANCE, proxy.instance, j->volume, NULL, on_step, j);
		break;
	case MAKE_VOLUME:
		ask("POST", body_volume(&j->create, j->volume), on_step, j, "/volumes/create");
		break;
	case MAKE_CONTAINER:
		ask("POST", body_sandbox(&j->create, j->volume, j->names, j->names_len), on_step, j,
		    "/containers/create?name=%s", j->name);
		break;
	case FIND_CONTAINER:
		ask_list("/containers/json?all=1&", LABEL_INSTANCE, proxy.instance, j->name, former,
		    on_step, j);
		break;
	case REMOVE_CONTAINER:
		ask("DELETE", NULL, on_step, j, "/containers/%s?force=1&v=1", j->at);
		break;
	case REMOVE_VOLUME:
		ask("DELETE", NULL, on_step, j, "/volumes/%s", j->volume);
		break;
	case MAKE_SWEEPER:
		ask("POST", body_sweeper(&j->create, j->volume), on_step, j,
		    "/containers/create?name=%s", j->name);
		break;
	case START_SWEEPER:
		ask("POST", NULL, on_step, j, "/containers/%s/start", j->at);
		break;
	case WAIT_SWEEPER:
		ask("GET", NULL, on_step, j, "/containers/%s/json", j->at);
		break;
	}
}

static void
step_again(evutil_socket_t fd, short what, void *arg)
{
	struct job *j = arg;

	(void)fd, (void)what;
	step(j, j->step);
}

static struct job *
job_new(uint64_t id, const struct m_d_create *m)
{
	struct job *j = mem_new(sizeof(*j));

	if ((j->again = evtimer_new(proxy.base, step_again, j)) == NULL)
		fatalx("out of memory");
	j->id = id;
	j->create = *m;
	if (m->sandbox == 0 && m->pool == 0)
		return j;
	name_make(j->name, m->sandbox, m->generation, m->pool);
	name_make(j->volume, m->pool == 0 ? m->sandbox : 0, m->generation, m->pool);
	return j;
}

/* status 404: all is gone. */
static void
job_end(struct job *j, int status, json_t *answer)
{
	struct owned *o = j->owned != NULL ? j->owned : owned_find(j->container), *sweeper;
	enum d_failure why = status == 404 ? j->why : failure("remove", status, answer);

	if (o == NULL && j->container[0] == '\0')
		o = owned_named(j->create.sandbox, j->create.generation, j->create.pool);
	/* One without an id is another job's, which is making it. */
	if (o != NULL && (o == j->owned || (status == 404 && o->id[0] != '\0')))
		owned_forget(o);
	else if (o != NULL)
		owned_leaving(o, 0);
	/* A list may have made it known meanwhile. */
	if (status == 404 && j->owned == NULL && (sweeper = owned_find(j->at)) != NULL)
		owned_forget(sweeper);
	if (j->failed || status != 404)
		reply_failed(j->id, j->failed ? j->why : why, NULL);
	else
		send_D_DONE(proxy.manager, j->id, &(struct m_d_none){0}, NULL, 0, -1);
	event_free(j->again);
	free(j->names);
	free(j);
}

static void
remove_start(struct job *j)
{
	j->until = time_boot_us() + REMOVE_SECONDS * 1000000LL;
	if (j->at[0] != '\0')
		step(j, REMOVE_CONTAINER);
	else if (j->name[0] != '\0')
		step(j, FIND_CONTAINER);
	else
		job_end(j, 404, NULL);
}

/* An engine that did not answer may still do it: then managerd asks for the removal when it is
 * back. */
static void
create_failed(struct job *j, int status, json_t *answer)
{
	j->failed = 1;
	j->why = failure("create", status, answer);
	if (j->step == MAKE_CONTAINER && status == 404)
		j->why = FAIL_NO_IMAGE;
	if (status == 0)
		job_end(j, 0, NULL);
	else
		remove_start(j);
}

static void
created(struct job *j)
{
	struct m_d_container m = {0};

	strlcpy(j->owned->id, j->container, sizeof(j->owned->id));
	strlcpy(m.container, j->container, sizeof(m.container));
	send_D_CREATED(proxy.manager, j->id, &m, NULL, 0, -1);
	event_free(j->again);
	free(j->names);
	free(j);
}

/* Whether a list of containers or volumes has that of the job; the container's id is noted. */
static int
listed(struct job *j, json_t *answer)
{
	json_t *volumes = json_object_get(answer, "Volumes"), *item;
	int found = 0;
	size_t i;

	json_array_foreach (j->step == FIND_CONTAINER ? answer : volumes, i, item) {
		const char *name =
		    j->step == FIND_CONTAINER ? name_of(item) : text_at(item, "Name");
		if (!ours(item, name) ||
		    (strcmp(name, j->volume) != 0 &&
			(j->step != FIND_CONTAINER || strcmp(name, j->name) != 0)))
			continue;
		found = 1;
		if (j->step == FIND_CONTAINER && id_valid(text_at(item, "Id")))
			strlcpy(j->at, text_at(item, "Id"), sizeof(j->at));
	}
	if (j->step == FIND_CONTAINER && j->container[0] == '\0')
		strlcpy(j->container, j->at, sizeof(j->container));
	return found;
}

static void
create_step(struct job *j, int status, json_t *answer)
{
	json_t *options = json_object_get(answer, "Options");
	const char *icc = text_at(options, "com.docker.network.bridge.enable_icc");
	enum step volume = j->create.keep_volume ? KEEP_VOLUME : MAKE_VOLUME;

	if (j->step == FIND_NETWORK && status == 404) {
		step(j, MAKE_NETWORK);
	} else if (j->step == FIND_NETWORK && status == 200 && strcmp(icc, "false") == 0 &&
		   strcmp(text_at(answer, "Driver"), "bridge") == 0) {
		step(j, volume); /* a network on which sandboxes reach each other is not used */
	} else if (j->step == MAKE_NETWORK && (status == 201 || status == 409)) {
		step(j, FIND_NETWORK); /* 409: somebody else was quicker */
	} else if (j->step == KEEP_VOLUME && status == 200 && listed(j, answer)) {
		step(j, MAKE_CONTAINER);
	} else if (j->step == KEEP_VOLUME && status == 200) {
		j->failed = 1; /* an empty one is not what is to be kept */
		j->why = FAIL_GONE;
		job_end(j, 404, NULL);
	} else if (j->step == MAKE_VOLUME && status == 201 && ours(answer, j->volume)) {
		step(j, MAKE_CONTAINER); /* it may have been there, but is not another's */
	} else if (j->step == MAKE_CONTAINER && status == 201 && id_valid(text_at(answer, "Id"))) {
		strlcpy(j->container, text_at(answer, "Id"), sizeof(j->container));
		strlcpy(j->at, j->container, sizeof(j->at));
		if (json_array_size(json_object_get(answer, "Warnings")) == 0)
			created(j);
		else /* a limit was dropped */
			create_failed(j, 201, answer);
	} else {
		create_failed(j, status, answer);
	}
}

/* With any image that is prepared: all have the same init. */
static int
sweep_start(struct job *j)
{
	const char *image = image_any();

	if (j->swept || image == NULL)
		return -1;
	log_warnx("%s: the engine does not remove the volume: emptying it", j->volume);
	j->swept = 1;
	strlcpy(j->create.image_id, image, sizeof(j->create.image_id));
	j->create.nano_cpus = proxy.config->num[CFG_MAX_CPUS];
	j->create.memory_mb = 64;
	j->create.pids_limit = 8;
	j->create.read_only = 1;
	step(j, MAKE_SWEEPER);
	return 0;
}

static void
sweep_step(struct job *j, int status, json_t *answer)
{
	if (j->step == MAKE_SWEEPER && status == 201 && id_valid(text_at(answer, "Id"))) {
		strlcpy(j->at, text_at(answer, "Id"), sizeof(j->at));
		step(j, START_SWEEPER);
	} else if (j->step == MAKE_SWEEPER) {
		job_end(j, status == 404 ? 500 : status, answer);
	} else if (j->step == START_SWEEPER && status == 204) {
		j->until = time_boot_us() + SWEEP_SECONDS * 1000000LL;
		step(j, WAIT_SWEEPER);
	} else if (j->step == WAIT_SWEEPER && status == 200 && state_of(answer) == STATE_RUNNING &&
		   time_boot_us() < j->until) {
		evtimer_add(j->again, &(struct timeval){.tv_usec = 100000});
	} else {
		remove_start(j);
	}
}

/*
 * One that was gone already may have left a sweeper, of the same name, when the engine went away in
 * the middle of it. Not where the volume is kept: there the name may be a newer container's by now.
 */
static int
search_again(struct job *j, int status)
{
	int again = status == 404 && !j->searched && !j->create.keep_volume && j->name[0] != '\0';

	j->searched |= again;
	return again;
}

static void
remove_step(struct job *j, int status, json_t *answer)
{
	int gone = status == 204 || status == 404, found = 0;

	if (status == 409 &&
	    time_boot_us() < j->until) { /* in progress, or in use for a moment yet */
		evtimer_add(j->again, &(struct timeval){.tv_usec = 100000});
		return;
	}
	if (j->step == REMOVE_VOLUME && status == 500 && sweep_start(j) == 0)
		return;
	if (j->step == FIND_VOLUME || j->step == FIND_CONTAINER) {
		gone = status == 200;
		found = listed(j, answer);
	}
	if (!gone)
		job_end(j, status, answer);
	else if (j->step == FIND_CONTAINER && found && j->at[0] != '\0')
		step(j, REMOVE_CONTAINER);
	else if (j->step == REMOVE_CONTAINER && search_again(j, status))
		step(j, FIND_CONTAINER);
	else if (j->step <= REMOVE_CONTAINER && !j->create.keep_volume && j->name[0] != '\0')
		step(j, FIND_VOLUME);
	else if (j->step == FIND_VOLUME && found)
		step(j, REMOVE_VOLUME);
	else
		job_end(j, 404, NULL);
}

static void
on_step(void *arg, int status, json_t *answer)
{
	struct job *j = arg;

	if (j->step <= MAKE_CONTAINER)
		create_step(j, status, answer);
	else if (j->step >= MAKE_SWEEPER)
		sweep_step(j, status, answer);
	else
		remove_step(j, status, answer);
}

/* The operator's list, or a way out by egressd alone, leaves no container on the bridge. */
static int
network_allowed(void)
{
	return proxy.config->num[CFG_ALLOW_NETWORK] &&
	       proxy.config->str[CFG_EGRESS_ALLOWLIST][0] == '\0' &&
	       strcmp(proxy.config->str[CFG_NETWORK_MODE], "bridge") == 0;
}

void
container_create(uint64_t id, const struct m_d_create *m, const char *names, size_t len)
{
	int forbidden = m->network && !network_allowed();
	struct job *j;

	if (owned_named(m->sandbox, m->generation, m->pool) != NULL)
		fatalx("managerd: creates a container that there is");
	if (forbidden || owned_full(m->sandbox)) {
		reply_failed(id, forbidden ? FAIL_FORBIDDEN : FAIL_LIMIT, NULL);
		return;
	}
	j = job_new(id, m);
	if (len > 0 && (j->names = strndup(names, len)) == NULL)
		fatalx("out of memory");
	j->names_len = len;
	j->owned = owned_new("", m->sandbox, m->generation, m->pool);
	step(j, m->network ? FIND_NETWORK : m->keep_volume ? KEEP_VOLUME : MAKE_VOLUME);
}

void
container_destroy(uint64_t id, struct owned *o, const struct m_d_destroy *m)
{
	struct m_d_create of = {.sandbox = m->sandbox,
	    .pool = m->pool,
	    .generation = m->generation,
	    .keep_volume = m->keep_volume};
	struct job *j = job_new(id, &of);

	if (o != NULL && o->id[0] != '\0')
		owned_leaving(o, 1);
	strlcpy(j->container, o != NULL ? o->id : "", sizeof(j->container));
	strlcpy(j->at, j->container, sizeof(j->at));
	remove_start(j);
}

struct inspect {
	uint64_t id;
	struct m_d_state state;
};

static void
on_inspected(void *arg, int status, json_t *answer)
{
	struct inspect *i = arg;
	json_t *state = json_object_get(answer, "State");

	i->state.state = status == 200 ? state_of(answer) : STATE_GONE;
	i->state.oom = json_is_true(json_object_get(state, "OOMKilled"));
	i->state.foreign_workspace =
	    i->state.state == STATE_EXITED &&
	    json_integer_value(json_object_get(state, "ExitCode")) == GUEST_EXIT_WORKSPACE;
	if (status == 200 || status == 404)
		send_D_STATE(proxy.manager, i->id, &i->state, NULL, 0, -1);
	else
		reply_failed(i->id, failure("inspect", status, answer), NULL);
	free(i);
}

void
container_inspect(uint64_t id, const char *container)
{
	struct inspect *i = mem_new(sizeof(*i));

	i->id = id;
	strlcpy(i->state.container, container, sizeof(i->state.container));
	ask("GET", NULL, on_inspected, i, "/containers/%s/json", container);
}
