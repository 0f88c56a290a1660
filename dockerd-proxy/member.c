/* Members of the pool: other limits, and the name of the sandbox that claimed one. And what all of
 * ours is called. */
#include "dockerd-proxy/proxy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <bsd/stdlib.h>

void
name_make(char name[OWN_NAME_MAX], uint64_t sandbox, uint32_t generation, uint64_t pool)
{
	char text[ID_TEXT_MAX];

	if (sandbox != 0)
		snprintf(name, OWN_NAME_MAX, NAME_PREFIX "%s-%u", id_text(text, "sb_", sandbox),
		    generation);
	else
		snprintf(name, OWN_NAME_MAX, NAME_PREFIX "%s", id_text(text, "pool_", pool));
}

int
name_parse(const char *name, uint64_t *sandbox, uint32_t *generation, uint64_t *pool)
{
	char text[ID_TEXT_MAX];
	const char *wrong;

	*sandbox = *generation = 0;
	*pool = 0;
	if (strncmp(name, NAME_PREFIX, strlen(NAME_PREFIX)) != 0)
		return -1;
	name += strlen(NAME_PREFIX);
	if (id_parse(name, "pool_", pool) == 0)
		return 0;
	if (strlen(name) <= 20 || name[19] != '-' || name[20] == '+')
		return -1;
	snprintf(text, sizeof(text), "%.19s", name);
	*generation = (uint32_t)strtonum(name + 20, 0, UINT32_MAX, &wrong);
	return wrong == NULL ? id_parse(text, "sb_", sandbox) : -1;
}

struct call {
	uint64_t id;
	const char *what;
	int done; /* the status that says so */
};

/* A limit that the engine could only take with a warning was not taken. */
static void
on_done(void *arg, int status, json_t *answer)
{
	struct call *call = arg;
	enum d_failure why;

	if (status == call->done && json_array_size(json_object_get(answer, "Warnings")) == 0) {
		send_D_DONE(proxy.manager, call->id, &(struct m_d_none){0}, NULL, 0, -1);
	} else {
		why = failure(call->what, status, answer);
		reply_failed(call->id, status == 404 ? FAIL_GONE : why, NULL);
	}
	free(call);
}

static struct call *
call_new(uint64_t id, const char *what, int done)
{
	struct call *call = mem_new(sizeof(*call));

	*call = (struct call){id, what, done};
	return call;
}

void
member_update(uint64_t id, struct owned *o, const struct m_d_update *m)
{
	ask("POST", body_update(m), on_done, call_new(id, "update", 200), "/containers/%s/update",
	    o->id);
}

/* It counts as the sandbox's at once, whatever the engine makes of its name. */
void
member_rename(uint64_t id, struct owned *o, const struct m_d_rename *m)
{
	char name[OWN_NAME_MAX];

	if (owned_named(m->sandbox, m->generation, 0) != NULL)
		fatalx("managerd: renames to a container that there is");
	if (owned_full(m->sandbox)) {
		reply_failed(id, FAIL_LIMIT, NULL);
		return;
	}
	owned_claim(o, m->sandbox, m->generation);
	name_make(name, m->sandbox, m->generation, 0);
	ask("POST", NULL, on_done, call_new(id, "rename", 204), "/containers/%s/rename?name=%s",
	    o->id, name);
}
