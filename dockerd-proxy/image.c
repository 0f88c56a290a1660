/*
 * Images: policy, pulls, and the prepared image, which is the base with our init and an empty
 * /workspace of the sandbox user's. It is made by a helper container that is never started, once
 * for each (instance, base, init, user).
 */
#include "dockerd-proxy/proxy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <bsd/string.h>

#define PULLS 2            /* at once */
#define REFUSED_US 5000000 /* how long a refused image is not asked for again */
#define PROGRESS_US 2000000

/* A request; many may wait for one pull. */
struct prepare {
	TAILQ_ENTRY(prepare) entry;
	uint64_t id;
	char image[D_IMAGE_MAX];
	struct image_ref ref;
	int pulled;
	char base[72];
	char helper[CONTAINER_ID_LEN + 1];
	char result[72];
	void *tar;
};
TAILQ_HEAD(prepares, prepare);

struct pull {
	TAILQ_ENTRY(pull) entry;
	struct prepares waiting;
	char image[D_IMAGE_MAX];
	struct image_ref ref;
	int running, failed;
	int64_t logged;
};

/* Building is one at a time: the next then finds what this one has made. The head of the queue is
 * at work. */
static struct prepares building = TAILQ_HEAD_INITIALIZER(building);
static TAILQ_HEAD(, pull) pulls = TAILQ_HEAD_INITIALIZER(pulls);
static struct {
	char image[D_IMAGE_MAX];
	int64_t until;
} refused[8];
static json_t *known; /* ids of prepared images */

int
image_is_prepared(const char *image_id)
{
	return json_object_get(known, image_id) != NULL;
}

void
image_seen(const char *image_id)
{
	if (known == NULL && (known = json_object()) == NULL)
		fatal("malloc");
	json_object_set_new(known, image_id, json_true());
}

static void prepare_find(struct prepare *);

static void
on_helper_removed(void *arg, int status, json_t *answer)
{
	if (status != 204 && status != 404 && status != 409)
		log_answer("remove a helper", status, answer);
	free(arg);
}

/* The end of a request that was at work, in either way. The helper goes, and the next one's turn
 * comes. */
static void
prepare_end(struct prepare *p, enum d_failure why)
{
	struct m_d_prepared m = {0};

	TAILQ_REMOVE(&building, p, entry);
	if (p->result[0] != '\0') {
		image_seen(p->result);
		strlcpy(m.image_id, p->result, sizeof(m.image_id));
		strlcpy(m.base_id, p->base, sizeof(m.base_id));
		send_D_PREPARED(proxy.manager, p->id, &m, NULL, 0, -1);
	} else {
		reply_failed(p->id, why, p->image);
	}
	if (p->helper[0] != '\0' && proxy.up)
		engine_call(
		    &(struct engine_call){
			.method = "DELETE", .seconds = CALL_SECONDS, .done = on_helper_removed},
		    "/containers/%s?force=1&v=1", p->helper);
	free(p->tar);
	free(p);
	if ((p = TAILQ_FIRST(&building)) != NULL && proxy.up)
		prepare_find(p);
	else if (p != NULL)
		prepare_end(p, FAIL_UNREACHABLE);
}

static void
prepare_failed(struct prepare *p, const char *what, int status, json_t *answer)
{
	log_answer(what, status, answer);
	prepare_end(p, status == 0 ? FAIL_UNREACHABLE : FAIL_ENGINE);
}

/* In words, since it names what the image depends on; nothing parses it but the check for our
 * instance. */
static void
prepare_key(const struct prepare *p, char key[256])
{
	snprintf(key, 256, "%s/%s/%s/%u:%u", proxy.instance, p->base + strlen("sha256:"),
	    embed_init_sha256, proxy.uid, proxy.gid);
}

static int
image_id_valid(const char *id)
{
	return id != NULL && strncmp(id, "sha256:", 7) == 0 && id_valid(id + 7);
}

static void
on_commit(void *arg, int status, json_t *answer)
{
	struct prepare *p = arg;
	const char *id = json_string_value(json_object_get(answer, "Id"));

	if (status != 201 || !image_id_valid(id)) {
		prepare_failed(p, "commit", status, answer);
		return;
	}
	strlcpy(p->result, id, sizeof(p->result));
	prepare_end(p, FAIL_ENGINE);
}

static void
on_unpacked(void *arg, int status, json_t *answer)
{
	struct prepare *p = arg;
	char key[256];

	if (status != 200) {
		prepare_failed(p, "unpack", status, answer);
		return;
	}
	prepare_key(p, key);
	engine_call(&(struct engine_call){.method = "POST",
			.seconds = CALL_SECONDS,
			.arg = p,
			.json = body_commit(key),
			.done = on_commit},
	    "/commit?container=%s&pause=0", p->helper);
}

static void
on_helper(void *arg, int status, json_t *answer)
{
	struct prepare *p = arg;
	const char *id = json_string_value(json_object_get(answer, "Id"));
	struct engine_call put = {
	    .method = "PUT", .seconds = CALL_SECONDS, .arg = p, .done = on_unpacked};

	if (status != 201 || !id_valid(id)) {
		prepare_failed(p, "create a helper", status, answer);
		return;
	}
	strlcpy(p->helper, id, sizeof(p->helper));
	put.tar = p->tar = tar_make(&put.tar_len);
	engine_call(&put, "/containers/%s/archive?path=/", p->helper);
}

static void
on_found(void *arg, int status, json_t *answer)
{
	struct prepare *p = arg;
	const char *id = json_string_value(json_object_get(json_array_get(answer, 0), "Id"));

	if (status != 200) {
		prepare_failed(p, "list images", status, answer);
	} else if (image_id_valid(id)) {
		strlcpy(p->result, id, sizeof(p->result));
		prepare_end(p, FAIL_ENGINE);
	} else {
		engine_call(&(struct engine_call){.method = "POST",
				.seconds = CALL_SECONDS,
				.arg = p,
				.json = body_helper(p->base),
				.done = on_helper},
		    "/containers/create?name=agent-sandbox-prepare-%016llx",
		    (unsigned long long)id_new());
	}
}

static void
prepare_find(struct prepare *p)
{
	char key[256], *filter;

	prepare_key(p, key);
	filter = engine_filter("agent-sandbox.prepared", key, NULL);
	engine_get(on_found, p, "/images/json?filters=%s", filter);
	free(filter);
}

static void
prepare_refuse(struct prepare *p, enum d_failure why)
{
	reply_failed(p->id, why, p->image);
	free(p);
}

static void pull_join(struct prepare *);

static void
on_base(void *arg, int status, json_t *answer)
{
	struct prepare *p = arg;
	const char *id = json_string_value(json_object_get(answer, "Id"));
	const char *os = json_string_value(json_object_get(answer, "Os"));
	const char *arch = json_string_value(json_object_get(answer, "Architecture"));

	if (status == 404 && !p->pulled) {
		pull_join(p);
	} else if (status != 200 || !image_id_valid(id)) {
		log_answer("inspect an image", status, answer);
		prepare_refuse(p, status == 0     ? FAIL_UNREACHABLE
				  : status == 404 ? FAIL_NO_IMAGE
						  : FAIL_ENGINE);
	} else if (os == NULL || strcmp(os, "linux") != 0 || arch == NULL ||
		   strcmp(arch, proxy.arch) != 0) {
		prepare_refuse(p, FAIL_BAD_IMAGE);
	} else {
		strlcpy(p->base, id, sizeof(p->base));
		TAILQ_INSERT_TAIL(&building, p, entry);
		if (TAILQ_FIRST(&building) == p)
			prepare_find(p);
	}
}

static void
prepare_inspect(struct prepare *p)
{
	const char *mark = strncmp(p->ref.tag, "sha256:", 7) == 0 ? "@" : ":";

	engine_get(on_base, p, "/images/%s%s%s/json", p->ref.name, mark, p->ref.tag);
}

void
image_prepare(uint64_t id, const char *name, size_t len)
{
	struct prepare *p = calloc(1, sizeof(*p));

	if (p == NULL)
		fatal("malloc");
	p->id = id;
	memcpy(p->image, name, len < sizeof(p->image) ? len : sizeof(p->image) - 1);
	if (image_parse(name, len, &p->ref) != 0)
		prepare_refuse(p, FAIL_BAD_IMAGE);
	else if (!image_allowed(proxy.config->str[CFG_ALLOWED_IMAGES], p->image, &p->ref))
		prepare_refuse(p, FAIL_FORBIDDEN);
	else
		prepare_inspect(p);
}

static int
image_refused(const char *image, int64_t now)
{
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		if (refused[i].until > now && strcmp(refused[i].image, image) == 0)
			return 1;
	return 0;
}

static void
image_refuse(const char *image, int64_t now)
{
	static size_t next;

	next = (next + 1) % (sizeof(refused) / sizeof(refused[0]));
	strlcpy(refused[next].image, image, sizeof(refused[next].image));
	refused[next].until = now + REFUSED_US;
}

static void pull_next(void);

static void
on_pulled(void *arg, int status, json_t *answer)
{
	struct pull *pull = arg;
	struct prepare *p;
	int ok = status == 200 && !pull->failed;

	TAILQ_REMOVE(&pulls, pull, entry);
	if (!ok && !pull->failed)
		log_answer("pull", status, answer);
	if (!ok && proxy.up)
		image_refuse(pull->image, time_boot_us());
	while ((p = TAILQ_FIRST(&pull->waiting)) != NULL) {
		TAILQ_REMOVE(&pull->waiting, p, entry);
		p->pulled = 1;
		if (ok)
			prepare_inspect(p);
		else
			prepare_refuse(p, proxy.up ? FAIL_NO_IMAGE : FAIL_UNREACHABLE);
	}
	log_info("pull of %s: %s", pull->image, ok ? "done" : "failed");
	free(pull);
	pull_next();
}

/* Errors may come as lines of a 200. */
static void
on_pull_line(void *arg, json_t *line)
{
	struct pull *pull = arg;
	const char *error = json_string_value(json_object_get(line, "error"));
	const char *status = json_string_value(json_object_get(line, "status"));
	const char *layer = json_string_value(json_object_get(line, "id"));
	json_t *detail = json_object_get(line, "progressDetail");
	json_int_t total = json_integer_value(json_object_get(detail, "total"));
	int64_t now = time_boot_us();

	if (error == NULL)
		error = json_string_value(json_object_get(line, "message"));
	if (error != NULL) {
		pull->failed = 1;
		log_warnx("pull of %s: %.300s", pull->image, error);
	} else if (status != NULL && now - pull->logged >= PROGRESS_US) {
		pull->logged = now;
		log_info("pull of %s: %.100s %.40s %lld of %lld MB", pull->image, status,
		    layer != NULL ? layer : "",
		    (long long)json_integer_value(json_object_get(detail, "current")) / 1000000,
		    (long long)total / 1000000);
	}
}

static void
pull_next(void)
{
	struct engine_call call = {
	    .method = "POST", .seconds = PULL_SECONDS, .line = on_pull_line, .done = on_pulled};
	struct pull *pull;
	int running = 0;

	TAILQ_FOREACH (pull, &pulls, entry)
		running += pull->running;
	TAILQ_FOREACH (pull, &pulls, entry) {
		if (pull->running || running >= PULLS)
			continue;
		running += pull->running = 1;
		log_info("pull of %s: begins", pull->image);
		call.arg = pull;
		engine_call(
		    &call, "/images/create?fromImage=%s&tag=%s", pull->ref.name, pull->ref.tag);
	}
}

static void
pull_join(struct prepare *p)
{
	struct pull *pull;

	if (image_refused(p->image, time_boot_us())) {
		prepare_refuse(p, FAIL_NO_IMAGE);
		return;
	}
	TAILQ_FOREACH (pull, &pulls, entry)
		if (strcmp(pull->image, p->image) == 0)
			break;
	if (pull == NULL) {
		if ((pull = calloc(1, sizeof(*pull))) == NULL)
			fatal("malloc");
		TAILQ_INIT(&pull->waiting);
		strlcpy(pull->image, p->image, sizeof(pull->image));
		pull->ref = p->ref;
		TAILQ_INSERT_TAIL(&pulls, pull, entry);
	}
	TAILQ_INSERT_TAIL(&pull->waiting, p, entry);
	pull_next();
}
