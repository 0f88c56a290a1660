/* What the engine holds of ours: which containers are known, and how that is found out. */
#include "dockerd-proxy/proxy.h"

#include <stdlib.h>
#include <string.h>
#include <bsd/string.h>

#include "common/pool_list.h"

static struct owned *owned;
static char removed[256][72]; /* the last ones: a list may have been made before that */

struct owned *
owned_find(const char *id)
{
	struct owned *o = owned;

	while (o != NULL && (id[0] == '\0' || strcmp(o->id, id) != 0))
		o = o->next;
	return o;
}

struct owned *
owned_named(uint64_t sandbox, uint32_t generation, uint64_t pool)
{
	struct owned *o = owned;

	while (o != NULL && (o->sandbox != sandbox ||
				(sandbox != 0 ? o->generation != generation : o->pool != pool)))
		o = o->next;
	return o;
}

/* A sandbox counts once, as long as it has a container that is not being removed. */
static void
count_mark(uint64_t sandbox)
{
	int n = 0;

	for (struct owned *o = owned; o != NULL; o = o->next)
		if (o->sandbox == sandbox)
			o->counts = !o->leaving && (sandbox == 0 || n++ == 0);
}

struct owned *
owned_new(const char *id, uint64_t sandbox, uint32_t generation, uint64_t pool)
{
	struct owned *o = mem_new(sizeof(*o));

	*o = (struct owned){
	    .next = owned, .sandbox = sandbox, .pool = pool, .generation = generation};
	strlcpy(o->id, id, sizeof(o->id));
	owned = o;
	count_mark(sandbox);
	return o;
}

void
owned_claim(struct owned *o, uint64_t sandbox, uint32_t generation)
{
	o->sandbox = sandbox;
	o->generation = generation;
	count_mark(sandbox);
}

void
owned_leaving(struct owned *o, int leaving)
{
	o->leaving = leaving != 0;
	count_mark(o->sandbox);
}

void
owned_forget(struct owned *gone)
{
	static size_t next;
	struct owned **o = &owned;

	strlcpy(removed[next++ % 256], gone->id, sizeof(removed[0]));
	while (*o != gone)
		o = &(*o)->next;
	*o = gone->next;
	count_mark(gone->sandbox);
	free(gone);
}

/*
 * Beside the pool there are MAX_SANDBOXES, of each at most two containers (the second is that of a
 * rollback), and for each two that are being removed.
 */
int
owned_full(uint64_t sandbox)
{
	int64_t most = proxy.config->num[CFG_MAX_SANDBOXES], members = 0, all = 0, leaving = 0;
	int same = 0, lives = 0;

	for (struct owned *o = owned; o != NULL; o = o->next) {
		if (o->sandbox == 0 && o->pool != 0) {
			members++;
			continue;
		}
		all += o->counts;
		leaving += o->leaving;
		same += o->sandbox == sandbox;
		lives |= o->sandbox == sandbox && o->counts;
	}
	if (sandbox == 0)
		return members >= pool_kept(proxy.config);
	return same >= 2 || (!lives && (all >= most || leaving >= 2 * most));
}

/* Ours: instance label equal, name of our form, kind known. Nothing else is ever touched. */
int
ours(json_t *item, const char *name)
{
	const char *kind = label_of(item, LABEL_KIND);

	return strcmp(label_of(item, LABEL_INSTANCE), proxy.instance) == 0 &&
	       strncmp(name, NAME_PREFIX, strlen(NAME_PREFIX)) == 0 &&
	       (strcmp(kind, "sandbox") == 0 || strcmp(kind, "pool") == 0 ||
		   strcmp(kind, "prepare") == 0);
}

/* Of a container in a list, without the slash. */
const char *
name_of(json_t *item)
{
	const char *name = json_string_value(json_array_get(json_object_get(item, "Names"), 0));

	return name == NULL ? "" : name + (name[0] == '/');
}

static enum container_state
state_parse(const char *text)
{
	static const char *const names[] = {[STATE_CREATED] = "created",
	    [STATE_RUNNING] = "running",
	    [STATE_PAUSED] = "paused",
	    [STATE_EXITED] = "exited"};
	enum container_state s = STATE_CREATED;

	while (s < STATE_GONE && strcmp(text, names[s]) != 0)
		s++;
	return s;
}

enum container_state
state_of(json_t *inspected)
{
	return state_parse(text_at(json_object_get(inspected, "State"), "Status"));
}

struct list {
	uint64_t id;
	int report;
	void (*done)(uint64_t, int);
};

static int
was_removed(const char *id)
{
	for (size_t i = 0; i < 256; i++)
		if (strcmp(removed[i], id) == 0)
			return 1;
	return 0;
}

static void
item_report(const struct list *l, struct m_d_item *m, const char *name, uint64_t volume)
{
	if (name_parse(name, &m->sandbox, &m->generation, &m->pool) != 0)
		m->sandbox = m->generation = m->pool = 0;
	if (m->sandbox != 0)
		m->pool = volume;
	if (m->kind == ITEM_CONTAINER && was_removed(m->container))
		return;
	if (m->kind == ITEM_CONTAINER && owned_find(m->container) == NULL) {
		struct owned *o = owned_named(m->sandbox, m->generation, m->pool);
		if (o != NULL && o->id[0] == '\0')
			return; /* that one is being made */
		owned_new(m->container, m->sandbox, m->generation, m->pool);
	}
	if (l->report)
		send_D_ITEM(proxy.manager, l->id, m, NULL, 0, -1);
}

/* A container keeps the volume that it was made with in the pool. */
static uint64_t
volume_of(json_t *container)
{
	json_t *mount;
	uint64_t sandbox, pool;
	uint32_t generation;
	size_t i;

	json_array_foreach (json_object_get(container, "Mounts"), i, mount)
		if (name_parse(text_at(mount, "Name"), &sandbox, &generation, &pool) == 0 &&
		    pool != 0)
			return pool;
	return 0;
}

static void
on_volume_list(void *arg, int status, json_t *answer)
{
	struct list *l = arg;
	json_t *item;
	size_t i;

	json_array_foreach (json_object_get(answer, "Volumes"), i, item) {
		struct m_d_item m = {.kind = ITEM_VOLUME, .state = STATE_GONE};
		if (status == 200 && ours(item, text_at(item, "Name")))
			item_report(l, &m, text_at(item, "Name"), 0);
	}
	l->done(l->id, status);
	free(l);
}

static void
on_container_list(void *arg, int status, json_t *answer)
{
	struct list *l = arg;
	json_t *item;
	size_t i;

	json_array_foreach (answer, i, item) {
		struct m_d_item m = {
		    .kind = ITEM_CONTAINER, .state = state_parse(text_at(item, "State"))};
		const char *name = name_of(item), *id = text_at(item, "Id");
		if (status != 200 || !ours(item, name) || !id_valid(id))
			continue;
		strlcpy(m.container, id, sizeof(m.container));
		if (strcmp(label_of(item, LABEL_KIND), "prepare") != 0)
			item_report(l, &m, name, volume_of(item));
		else if (!l->report)
			helper_remove(id);
	}
	if (status == 200) {
		ask_list(
		    "/volumes?", LABEL_INSTANCE, proxy.instance, NULL, NULL, on_volume_list, l);
		return;
	}
	l->done(l->id, status);
	free(l);
}

void
owned_list(int report, uint64_t id, void (*done)(uint64_t, int))
{
	struct list *l = mem_new(sizeof(*l));

	*l = (struct list){id, report, done};
	ask_list("/containers/json?all=1&", LABEL_INSTANCE, proxy.instance, NULL, NULL,
	    on_container_list, l);
}
