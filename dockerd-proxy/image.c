/*
 * Images: policy, pulls, and the prepared image, which is a base with our init and a /workspace of
 * the sandbox user's. It is made by a helper container that is never started, once for each
 * (instance, base, init, user). What the base has in /workspace is kept; if it is another user's,
 * init refuses to run on it (GUEST_EXIT_WORKSPACE), since only from inside can that be seen without
 * reading the image's files here.
 */
#include "dockerd-proxy/proxy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <bsd/string.h>
#include <bsd/sys/queue.h>

#define PULLS 4             /* at once */
#define PULLS_EACH 2        /* of them, for one tenant */
#define REFUSED_US 5000000  /* for so long a refused image is not asked for again */
#define PROGRESS_US 2000000 /* between lines of the log */

enum step { INSPECT, FIND, MAKE_HELPER, UNPACK, COMMIT };

struct prepare {
	TAILQ_ENTRY(prepare) entry;
	uint64_t id;
	uint32_t who;
	enum step step;
	int pulled; /* or must not be */
	char image[D_IMAGE_MAX];
	struct image_ref ref;
	char base[72];
	char helper[72];
	void *tar;
};
TAILQ_HEAD(prepares, prepare);

struct pull {
	TAILQ_ENTRY(pull) entry;
	struct prepares waiting;
	char image[D_IMAGE_MAX];
	struct image_ref ref;
	uint32_t who; /* of those that wait, the one that it runs for */
	int running, failed;
	int64_t logged;
};

/* One helper at a time: the next request then finds what this one has made. The head is at work. */
static struct prepares building = TAILQ_HEAD_INITIALIZER(building);
static TAILQ_HEAD(, pull) pulls = TAILQ_HEAD_INITIALIZER(pulls);
static struct {
	char image[D_IMAGE_MAX];
	int64_t until;
} refused[8];
static json_t *prepared; /* an object: its keys are the ids */

static void on_step(void *, int, json_t *);
static void pull_join(struct prepare *);

const char *
image_any(void)
{
	return json_object_iter_key(json_object_iter(prepared));
}

int
image_is_prepared(const char *image_id)
{
	return json_object_get(prepared, image_id) != NULL;
}

void
image_seen(const char *image_id)
{
	if (prepared == NULL)
		prepared = json_object();
	json_object_set_new(prepared, image_id, json_true());
}

/* In words, since it names what the image depends on. */
static void
key_of(const struct prepare *p, char key[256])
{
	snprintf(key, 256, "%s/%s/%s/%u:%u", proxy.instance, p->base + strlen("sha256:"),
	    embed_init_sha256, proxy.uid, proxy.gid);
}

static void
step(struct prepare *p, enum step next)
{
	struct engine_call put = {
	    .method = "PUT", .seconds = CALL_SECONDS, .done = on_step, .arg = p};
	char key[256];

	p->step = next;
	key_of(p, key);
	switch (next) {
	case INSPECT:
		ask("GET", NULL, on_step, p, "/images/%s%s%s/json", p->ref.name,
		    strncmp(p->ref.tag, "sha256:", 7) == 0 ? "@" : ":", p->ref.tag);
		break;
	case FIND:
		ask_list("/images/json?", LABEL_PREPARED, key, NULL, NULL, on_step, p);
		break;
	case MAKE_HELPER:
		ask("POST", body_helper(p->base), on_step, p,
		    "/containers/create?name=agent-sandbox-prepare-%016llx",
		    (unsigned long long)id_new());
		break;
	case UNPACK:
		put.tar = p->tar = tar_make(&put.tar_len);
		engine_call(&put, "/containers/%s/archive?path=/", p->helper);
		break;
	case COMMIT:
		ask("POST", body_commit(key), on_step, p, "/commit?container=%s&pause=0",
		    p->helper);
		break;
	}
}

static void
on_helper_removed(void *arg, int status, json_t *answer)
{
	(void)arg;
	if (status != 204)
		failure("remove a helper", status, answer);
}

void
helper_remove(const char *container)
{
	ask("DELETE", NULL, on_helper_removed, NULL, "/containers/%s?force=1&v=1", container);
}

/* The end in either way: image_id is NULL when it failed. The helper goes, and the next one's turn
 * comes. */
static void
prepare_end(struct prepare *p, const char *image_id, enum d_failure why)
{
	struct m_d_prepared m = {0};
	int built = p->step >= FIND;

	if (image_id != NULL) {
		image_seen(image_id);
		strlcpy(m.image_id, image_id, sizeof(m.image_id));
		strlcpy(m.base_id, p->base, sizeof(m.base_id));
		send_D_PREPARED(proxy.manager, p->id, &m, NULL, 0, -1);
	} else {
		reply_failed(p->id, why, p->image);
	}
	if (p->helper[0] != '\0' && proxy.up)
		helper_remove(p->helper);
	if (built)
		TAILQ_REMOVE(&building, p, entry);
	free(p->tar);
	free(p);
	if (built && (p = TAILQ_FIRST(&building)) != NULL) {
		if (proxy.up)
			step(p, FIND);
		else
			prepare_end(p, NULL, FAIL_UNREACHABLE);
	}
}

static void
on_base(struct prepare *p, int status, json_t *answer)
{
	if (status == 404 && !p->pulled) {
		pull_join(p);
	} else if (status != 200 || !image_id_valid(text_at(answer, "Id"))) {
		enum d_failure why = failure("inspect an image", status, answer);
		prepare_end(p, NULL, status == 404 ? FAIL_NO_IMAGE : why);
	} else if (strcmp(text_at(answer, "Os"), "linux") != 0 ||
		   strcmp(text_at(answer, "Architecture"), proxy.arch) != 0) {
		prepare_end(p, NULL, FAIL_BAD_IMAGE);
	} else {
		strlcpy(p->base, text_at(answer, "Id"), sizeof(p->base));
		TAILQ_INSERT_TAIL(&building, p, entry);
		p->step = FIND;
		if (TAILQ_FIRST(&building) == p)
			step(p, FIND);
	}
}

static void
on_step(void *arg, int status, json_t *answer)
{
	struct prepare *p = arg;
	const char *id = text_at(p->step == FIND ? json_array_get(answer, 0) : answer, "Id");

	if (p->step == INSPECT) {
		on_base(p, status, answer);
	} else if (p->step == FIND && status == 200 && !image_id_valid(id)) {
		step(p, MAKE_HELPER);
	} else if (p->step == MAKE_HELPER && status == 201 && id_valid(id)) {
		strlcpy(p->helper, id, sizeof(p->helper));
		step(p, UNPACK);
	} else if (p->step == UNPACK && status == 200) {
		step(p, COMMIT);
	} else if (image_id_valid(id) &&
		   ((p->step == FIND && status == 200) || (p->step == COMMIT && status == 201))) {
		prepare_end(p, id, FAIL_ENGINE);
	} else {
		prepare_end(p, NULL, failure("prepare an image", status, answer));
	}
}

void
image_prepare(uint64_t id, const struct m_d_prepare *m, const char *name, size_t len)
{
	struct prepare *p = mem_new(sizeof(*p));

	p->id = id;
	p->pulled = m->local;
	p->who = m->who;
	snprintf(p->image, sizeof(p->image), "%.*s", (int)len, name);
	if (image_parse(name, len, &p->ref) != 0)
		prepare_end(p, NULL, FAIL_BAD_IMAGE);
	else if (!image_allowed(proxy.config->str[CFG_ALLOWED_IMAGES], p->image, &p->ref))
		prepare_end(p, NULL, FAIL_FORBIDDEN);
	else
		step(p, INSPECT);
}

/* Errors may come as lines of a 200. */
static void
on_pull_line(void *arg, json_t *line)
{
	struct pull *pull = arg;
	json_t *detail = json_object_get(line, "progressDetail");
	const char *error = text_at(line, "error");
	int64_t now = time_boot_us();

	if (error[0] == '\0')
		error = text_at(line, "message");
	if (error[0] != '\0') {
		pull->failed = 1;
		log_warnx("pull of %s: %.300s", pull->image, error);
	} else if (now - pull->logged >= PROGRESS_US) {
		pull->logged = now;
		log_info("pull of %s: %.100s %.40s %lld of %lld bytes", pull->image,
		    text_at(line, "status"), text_at(line, "id"),
		    (long long)json_integer_value(json_object_get(detail, "current")),
		    (long long)json_integer_value(json_object_get(detail, "total")));
	}
}

static void pull_next(void);

static void
on_pulled(void *arg, int status, json_t *answer)
{
	static size_t next;
	struct pull *pull = arg;
	struct prepare *p;
	int ok = status == 200 && !pull->failed;

	(void)answer;
	log_info("pull of %s: %s", pull->image, ok ? "done" : "failed");
	TAILQ_REMOVE(&pulls, pull, entry);
	if (!ok && proxy.up) {
		next = (next + 1) % (sizeof(refused) / sizeof(refused[0]));
		strlcpy(refused[next].image, pull->image, sizeof(refused[next].image));
		refused[next].until = time_boot_us() + REFUSED_US;
	}
	while ((p = TAILQ_FIRST(&pull->waiting)) != NULL) {
		TAILQ_REMOVE(&pull->waiting, p, entry);
		p->pulled = 1;
		if (ok)
			step(p, INSPECT);
		else
			prepare_end(p, NULL, proxy.up ? FAIL_NO_IMAGE : FAIL_UNREACHABLE);
	}
	free(pull);
	pull_next();
}

/* Whether one of those that wait for it may have one more. */
static int
pull_may(struct pull *pull)
{
	struct prepare *p;
	struct pull *other;

	TAILQ_FOREACH (p, &pull->waiting, entry) {
		int n = 0;

		pull->who = p->who;
		TAILQ_FOREACH (other, &pulls, entry) {
			if (!other->running)
				break;
			n += other->who == p->who;
		}
		if (n < PULLS_EACH)
			return 1;
	}
	return 0;
}

/* In their order, but for those of whom there are enough; those that run stand in front. */
static void
pull_next(void)
{
	struct engine_call call = {
	    .method = "POST", .seconds = PULL_SECONDS, .line = on_pull_line, .done = on_pulled};
	struct pull *pull, *next;
	int running = 0;

	TAILQ_FOREACH (pull, &pulls, entry)
		running += pull->running;
	TAILQ_FOREACH_SAFE (pull, &pulls, entry, next) {
		if (pull->running || running >= PULLS || !pull_may(pull))
			continue;
		running += pull->running = 1;
		TAILQ_REMOVE(&pulls, pull, entry);
		TAILQ_INSERT_HEAD(&pulls, pull, entry);
		log_info("pull of %s: begins", pull->image);
		call.arg = pull;
		engine_call(
		    &call, "/images/create?fromImage=%s&tag=%s", pull->ref.name, pull->ref.tag);
	}
}

/* One pull of an image, however many wait for it. */
static void
pull_join(struct prepare *p)
{
	struct pull *pull;

	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		if (refused[i].until > time_boot_us() && strcmp(refused[i].image, p->image) == 0) {
			prepare_end(p, NULL, FAIL_NO_IMAGE);
			return;
		}
	pull = TAILQ_FIRST(&pulls);
	while (pull != NULL && strcmp(pull->image, p->image) != 0)
		pull = TAILQ_NEXT(pull, entry);
	if (pull == NULL) {
		pull = mem_new(sizeof(*pull));
		TAILQ_INIT(&pull->waiting);
		strlcpy(pull->image, p->image, sizeof(pull->image));
		pull->ref = p->ref;
		TAILQ_INSERT_TAIL(&pulls, pull, entry);
	}
	TAILQ_INSERT_TAIL(&pull->waiting, p, entry);
	pull_next();
}
