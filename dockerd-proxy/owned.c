/* What the engine holds of ours: which containers are known, and how that is found out. */
#include "dockerd-proxy/proxy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <bsd/stdlib.h>
#include <bsd/string.h>

static struct owned *owned;

struct owned *
owned_find(const char *id)
{
	struct owned *o = owned;

	while (o != NULL && (id[0] == '\0' || strcmp(o->id, id) != 0))
		o = o->next;
	return o;
}

struct owned *
owned_named(uint64_t sandbox, uint32_t generation)
{
	struct owned *o = owned;

	while (o != NULL && (o->sandbox != sandbox || o->generation != generation))
		o = o->next;
	return o;
}

struct owned *
owned_new(const char *id, uint64_t sandbox, uint32_t generation)
{
	struct owned *o = calloc(1, sizeof(*o));

	if (o == NULL)
		fatalx("out of memory");
	*o = (struct owned){.next = owned, .sandbox = sandbox, .generation = generation};
	strlcpy(o->id, id, sizeof(o->id));
	for (struct owned *other = owned; other != NULL; other = other->next)
		o->second |= other->sandbox == sandbox;
	return owned = o;
}

void
owned_forget(struct owned *gone)
{
	struct owned **o = &owned, *sibling;

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
int
owned_full(uint64_t sandbox)
{
	int64_t others = 0, same = 0;

	for (struct owned *o = owned; o != NULL; o = o->next) {
		same += o->sandbox == sandbox;
		others += o->sandbox != sandbox && !o->second;
	}
	return same >= 2 || (same == 0 && others >= proxy.config->num[CFG_MAX_SANDBOXES]);
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

/* "agent-sandbox-sb_<16 hex>-<generation>": 0, or -1. */
static int
name_parse(const char *name, uint64_t *sandbox, uint32_t *generation)
{
	char text[ID_TEXT_MAX];
	const char *wrong;

	if (strlen(name) <= strlen(NAME_PREFIX) + 20 || name[strlen(NAME_PREFIX) + 19] != '-')
		return -1;
	snprintf(text, sizeof(text), "%.19s", name + strlen(NAME_PREFIX));
	name += strlen(NAME_PREFIX) + 20;
	*generation = (uint32_t)strtonum(name, 0, UINT32_MAX, &wrong);
	return wrong == NULL && name[0] != '+' ? id_parse(text, "sb_", sandbox) : -1;
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

static void
item_report(const struct list *l, struct m_d_item *m, const char *name)
{
	if (name_parse(name, &m->sandbox, &m->generation) != 0)
		m->sandbox = m->generation = 0;
	if (m->kind == ITEM_CONTAINER && owned_find(m->container) == NULL) {
		struct owned *o = owned_named(m->sandbox, m->generation);
		if (o != NULL && o->id[0] == '\0')
			return; /* that one is being made */
		owned_new(m->container, m->sandbox, m->generation);
	}
	if (l->report)
		send_D_ITEM(proxy.manager, l->id, m, NULL, 0, -1);
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
			item_report(l, &m, text_at(item, "Name"));
	}
	l->done(l->id, status);
	free(l);
}

static void
on_helper_removed(void *arg, int status, json_t *answer)
{
	(void)arg;
	if (status != 204)
		failure("remove a helper", status, answer);
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
			item_report(l, &m, name);
		else if (!l->report)
			ask("DELETE", NULL, on_helper_removed, NULL, "/containers/%s?force=1&v=1",
			    id);
	}
	if (status == 200) {
		ask_list("/volumes?", LABEL_INSTANCE, proxy.instance, NULL, on_volume_list, l);
		return;
	}
	l->done(l->id, status);
	free(l);
}

void
owned_list(int report, uint64_t id, void (*done)(uint64_t, int))
{
	struct list *l = calloc(1, sizeof(*l));

	if (l == NULL)
		fatalx("out of memory");
	*l = (struct list){id, report, done};
	ask_list(
	    "/containers/json?all=1&", LABEL_INSTANCE, proxy.instance, NULL, on_container_list, l);
}
