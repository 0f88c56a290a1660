/* What the engine holds of ours: instance label equal, name of our form, kind known. Nothing else
 * is ever touched. */
#include "dockerd-proxy/proxy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <bsd/stdlib.h>

struct list {
	uint64_t id;
	int report;
	void (*done)(uint64_t, int);
};

#define NAME_PREFIX "agent-sandbox-"

/* "agent-sandbox-sb_<16 hex>-<generation>": 0, or -1. */
int
name_parse(const char *name, uint64_t *sandbox, uint32_t *generation)
{
	char text[ID_TEXT_MAX];
	const char *dash, *wrong;

	if (strncmp(name, NAME_PREFIX, strlen(NAME_PREFIX)) != 0)
		return -1;
	name += strlen(NAME_PREFIX);
	if ((dash = strchr(name, '-')) == NULL || (size_t)(dash - name) >= sizeof(text))
		return -1;
	memcpy(text, name, (size_t)(dash - name));
	text[dash - name] = '\0';
	if (id_parse(text, "sb_", sandbox) != 0 || dash[1] < '0' || dash[1] > '9')
		return -1;
	*generation = (uint32_t)strtonum(dash + 1, 0, UINT32_MAX, &wrong);
	return wrong == NULL ? 0 : -1;
}

enum container_state
state_parse(const char *s)
{
	static const struct {
		const char *name;
		enum container_state state;
	} states[] = {{"created", STATE_CREATED}, {"running", STATE_RUNNING},
	    {"restarting", STATE_RUNNING}, {"paused", STATE_PAUSED}, {"exited", STATE_EXITED},
	    {"dead", STATE_EXITED}, {"removing", STATE_GONE}};

	for (size_t i = 0; s != NULL && i < sizeof(states) / sizeof(states[0]); i++)
		if (strcmp(s, states[i].name) == 0)
			return states[i].state;
	return STATE_GONE;
}

static const char *
label(json_t *item, const char *name)
{
	const char *value =
	    json_string_value(json_object_get(json_object_get(item, "Labels"), name));

	return value != NULL ? value : "";
}

int
list_ours(json_t *item, const char *name)
{
	const char *kind = label(item, "agent-sandbox.kind");

	return strcmp(label(item, "agent-sandbox.instance"), proxy.instance) == 0 && name != NULL &&
	       strncmp(name, NAME_PREFIX, strlen(NAME_PREFIX)) == 0 &&
	       (strcmp(kind, "sandbox") == 0 || strcmp(kind, "pool") == 0 ||
		   strcmp(kind, "prepare") == 0);
}

static void
item_report(const struct list *l, enum d_item_kind kind, const char *name, const char *id,
    enum container_state state)
{
	struct m_d_item item = {.kind = kind, .state = state};

	if (name_parse(name, &item.sandbox, &item.generation) != 0)
		item.sandbox = item.generation = 0;
	if (kind == ITEM_CONTAINER && owned_add(id, item.sandbox, item.generation) == NULL)
		return;
	memcpy(item.container, id, strlen(id) + 1);
	if (l->report)
		send_D_ITEM(proxy.manager, l->id, &item, NULL, 0, -1);
}

static void
list_end(struct list *l, int status)
{
	l->done(l->id, status);
	free(l);
}

static void
on_volumes(void *arg, int status, json_t *answer)
{
	struct list *l = arg;
	json_t *item;
	size_t i;

	json_array_foreach (json_object_get(answer, "Volumes"), i, item) {
		const char *name = json_string_value(json_object_get(item, "Name"));
		if (status == 200 && list_ours(item, name))
			item_report(l, ITEM_VOLUME, name, "", STATE_GONE);
	}
	list_end(l, status);
}

static void
ignore(void *arg __attribute__((unused)), int status __attribute__((unused)),
    json_t *answer __attribute__((unused)))
{
}

static void
on_containers(void *arg, int status, json_t *answer)
{
	struct list *l = arg;
	json_t *item;
	size_t i;

	if (status != 200 || !json_is_array(answer)) {
		list_end(l, status == 200 ? 500 : status);
		return;
	}
	json_array_foreach (answer, i, item) {
		const char *id = json_string_value(json_object_get(item, "Id"));
		const char *name =
		    json_string_value(json_array_get(json_object_get(item, "Names"), 0));
		const char *state = json_string_value(json_object_get(item, "State"));
		if (name == NULL || !list_ours(item, name + (name[0] == '/')) || !id_valid(id))
			continue;
		if (strcmp(label(item, "agent-sandbox.kind"), "prepare") != 0)
			item_report(l, ITEM_CONTAINER, name + 1, id, state_parse(state));
		else if (!l->report)
			engine_call(
			    &(struct engine_call){
				.method = "DELETE", .seconds = CALL_SECONDS, .done = ignore},
			    "/containers/%s?force=1&v=1", id);
	}
	char *filter = engine_filter("agent-sandbox.instance", proxy.instance, NULL);
	engine_get(on_volumes, l, "/volumes?filters=%s", filter);
	free(filter);
}

void
list_all(int report, uint64_t id, void (*done)(uint64_t, int))
{
	struct list *l = calloc(1, sizeof(*l));
	char *filter = engine_filter("agent-sandbox.instance", proxy.instance, NULL);

	if (l == NULL)
		fatal("malloc");
	*l = (struct list){id, report, done};
	engine_get(on_containers, l, "/containers/json?all=1&filters=%s", filter);
	free(filter);
}
