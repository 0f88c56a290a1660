/*
 * Whether the engine is there and is one that we can trust to do what it is told: version,
 * abilities, then what of ours it holds. Afterwards a ping a second; an engine that does not answer
 * for PING_SECONDS is down until it does.
 */
#include "dockerd-proxy/proxy.h"

#include <stdio.h>
#include <string.h>
#include <bsd/string.h>
#include <event2/event.h>

#define API_MIN 41
#define API_MAX 55
#define PING_SECONDS 3

static struct m_d_engine state;
static char why_down[D_TEXT_MAX] = "not tried yet";
static void (*when_settled)(void);
static struct event *timer;
static int checked, cleaned;
static int64_t since_ns;

static void version_ask(void);

void
connect_send_state(void)
{
	const char *why = proxy.up ? "" : why_down;

	state.up = proxy.up != 0;
	send_D_ENGINE(proxy.manager, 0, &state, why, strlen(why), -1);
}

static void
settle(void)
{
	connect_send_state();
	if (when_settled != NULL)
		when_settled();
	when_settled = NULL;
}

static void
timer_set(int seconds)
{
	evtimer_add(timer, &(struct timeval){.tv_sec = seconds});
}

void
connect_lost(const char *why)
{
	int was_up = proxy.up, is_new = strcmp(why, why_down) != 0;

	proxy.up = checked = 0;
	strlcpy(why_down, why, sizeof(why_down));
	engine_abort();
	attach_abort();
	timer_set(1);
	if (was_up || when_settled != NULL || is_new) {
		log_warnx("engine: %s", why);
		settle();
	}
}

static void
on_ping(void *arg __attribute__((unused)), int status, json_t *answer __attribute__((unused)))
{
	if (!proxy.up)
		return;
	if (status != 200)
		connect_lost("the container engine does not answer");
	else
		timer_set(1);
}

static void
on_timer(evutil_socket_t fd __attribute__((unused)), short what __attribute__((unused)),
    void *arg __attribute__((unused)))
{
	struct engine_call ping = {.method = "GET", .seconds = PING_SECONDS, .done = on_ping};

	if (proxy.up)
		engine_call(&ping, "/_ping");
	else
		version_ask();
}

static void
on_listed(uint64_t id __attribute__((unused)), int status)
{
	if (status != 200) {
		connect_lost("the container engine did not list its containers");
		return;
	}
	proxy.up = 1;
	why_down[0] = '\0';
	log_info("engine: version %s, API 1.%d", state.version, proxy.minor);
	events_start(since_ns);
	timer_set(1);
	settle();
}

/* Left over from an earlier run: prepared images that nothing uses, helpers that were never
 * removed. One by one. */
static void
on_images(void *arg, int status, json_t *answer)
{
	static json_t *images;
	static size_t next;
	size_t len = strlen(proxy.instance);

	if (arg != NULL && status == 409) /* in use: so it may be used again */
		image_seen(arg);
	if (arg == NULL && status == 200) {
		images = json_incref(answer);
		next = 0;
	}
	for (; next < json_array_size(images); next++) {
		json_t *image = json_array_get(images, next);
		const char *key = json_string_value(
		    json_object_get(json_object_get(image, "Labels"), "agent-sandbox.prepared"));
		const char *id = json_string_value(json_object_get(image, "Id"));
		if (key == NULL || strncmp(key, proxy.instance, len) != 0 || key[len] != '/' ||
		    id == NULL || strncmp(id, "sha256:", 7) != 0 || strlen(id) != 71)
			continue;
		next++;
		engine_call(&(struct engine_call){.method = "DELETE",
				.seconds = CALL_SECONDS,
				.done = on_images,
				.arg = (void *)id},
		    "/images/%s?noprune=1", id);
		return;
	}
	json_decref(images);
	images = NULL;
	cleaned = 1;
	list_all(0, 0, on_listed);
}

/* The rest needs our label's value. */
void
connect_instance(void)
{
	char *filter;

	if (!checked || proxy.instance[0] == '\0')
		return;
	if (cleaned) {
		list_all(0, 0, on_listed);
		return;
	}
	filter = engine_filter("agent-sandbox.prepared", "", NULL);
	engine_get(on_images, NULL, "/images/json?filters=%s", filter);
	free(filter);
}

static void
on_info(void *arg __attribute__((unused)), int status, json_t *answer)
{
	static const char *const need[] = {"MemoryLimit", "PidsLimit", "CpuCfsQuota"};
	const char *runtime = proxy.config->str[CFG_DOCKER_RUNTIME];

	if (status != 200) {
		connect_lost("the container engine does not answer");
		return;
	}
	for (size_t i = 0; i < sizeof(need) / sizeof(need[0]); i++)
		if (!json_is_true(json_object_get(answer, need[i])))
			fatal_config(
			    "the container engine cannot enforce limits here (%s is missing): "
			    "enable the memory, pids and cpu cgroup controllers",
			    need[i]);
	if (runtime[0] != '\0' &&
	    json_object_get(json_object_get(answer, "Runtimes"), runtime) == NULL)
		fatal_config("AGENT_SANDBOX_DOCKER_RUNTIME: the container engine has no runtime %s",
		    runtime);
	proxy.nano_cpus = json_integer_value(json_object_get(answer, "NCPU")) * 1000000000;
	if (proxy.nano_cpus <= 0)
		fatal_config("the container engine says that it has no CPU");
	checked = 1;
	if (proxy.instance[0] == '\0' && when_settled != NULL) {
		when_settled();
		when_settled = NULL;
	}
	connect_instance();
}

/* "1.N" to N, or -1. */
static int
minor_parse(const char *text)
{
	int n, end = 0;

	return text != NULL && sscanf(text, "1.%4d%n", &n, &end) == 1 && text[end] == '\0' ? n : -1;
}

static void
podman_refuse(json_t *answer)
{
	json_t *part;
	size_t i;

	json_array_foreach (json_object_get(answer, "Components"), i, part) {
		const char *name = json_string_value(json_object_get(part, "Name"));
		if (name != NULL && strcasestr(name, "podman") != NULL)
			fatal_config(
			    "the container engine is Podman, which is not supported: it closes a "
			    "container's input when an attached client leaves");
	}
}

static void
on_version(void *arg __attribute__((unused)), int status, json_t *answer)
{
	const char *max, *min, *version, *arch;
	int high, low;

	if (status != 200 || json_unpack(answer, "{ss ss ss ss}", "ApiVersion", &max, "Version",
				 &version, "Arch", &arch, "MinAPIVersion", &min) != 0) {
		connect_lost(status == 0 ? "the container engine cannot be reached"
					 : "the container engine's socket does not speak its API");
		return;
	}
	podman_refuse(answer);
	high = minor_parse(max);
	low = minor_parse(min);
	if (high < API_MIN || low > API_MAX)
		fatal_config("the container engine speaks API %s to %s, this program 1.%d to 1.%d",
		    min, max, API_MIN, API_MAX);
	proxy.minor = high < API_MAX ? high : API_MAX;
	strlcpy(state.version, version, sizeof(state.version));
	snprintf(state.api, sizeof(state.api), "1.%d", proxy.minor);
	strlcpy(proxy.arch, arch, sizeof(proxy.arch));
	engine_get(on_info, NULL, "/info");
}

static void
version_ask(void)
{
	struct engine_call version = {.method = "GET", .seconds = PING_SECONDS, .done = on_version};

	since_ns = time_wall_us() * 1000;
	engine_call(&version, "/version");
}

void
connect_start(void (*settled)(void))
{
	when_settled = settled;
	if ((timer = evtimer_new(proxy.base, on_timer, NULL)) == NULL)
		fatalx("evtimer_new");
	version_ask();
}
