/*
 * Whether the engine is there and is one that does what it is told: version, abilities, then what
 * of ours it holds. From then on a ping a second, and its events about our containers.
 */
#include "dockerd-proxy/proxy.h"

#include <stdio.h>
#include <string.h>
#include <bsd/string.h>
#include <event2/event.h>

#define API_MIN 41
#define API_MAX 55
#define PING_SECONDS 3 /* without an answer for so long the engine is down */

static struct m_d_engine state;
static char why_down[D_TEXT_MAX];
static void (*when_settled)(void);
static struct event *timer;
static char network[72]; /* the id of the engine's network "none" */
static int cleaned, following;
static int64_t event_ns; /* events are known up to this time */

static void follow(void);
static void identify(void);

static void
settle(void)
{
	state.up = proxy.up != 0;
	send_D_ENGINE(proxy.manager, 0, &state, why_down, strlen(why_down), -1);
	if (when_settled != NULL)
		when_settled();
	when_settled = NULL;
}

static void
down(const char *why)
{
	int told = !proxy.up && strcmp(why, why_down) == 0;

	proxy.up = proxy.unsure = 0;
	strlcpy(why_down, why, sizeof(why_down));
	uhttp_abort(); /* what waits for a hung engine waits no longer */
	attach_abort();
	evtimer_add(timer, &(struct timeval){.tv_sec = 1});
	if (!told) {
		log_warnx("%s", why);
		settle();
	}
}

static void
on_listed(uint64_t id, int status)
{
	(void)id;
	if (status != 200) {
		down("the container engine does not list what it holds");
		return;
	}
	proxy.up = 1;
	why_down[0] = '\0';
	log_info("container engine: version %s, API %s", state.version, state.api);
	follow();
	evtimer_add(timer, &(struct timeval){.tv_sec = 1});
	settle();
}

/* Once: prepared images of an earlier run are removed, one by one; 409 means that one is in use. */
static void
on_image(void *arg, int status, json_t *answer)
{
	static json_t *images;
	static size_t next;
	size_t len = strlen(proxy.instance);

	if (arg != NULL && status == 409)
		image_seen(arg);
	if (arg == NULL && json_is_array(answer))
		images = json_incref(answer);
	while (next < json_array_size(images) && status != 0) {
		json_t *image = json_array_get(images, next++);
		const char *key = label_of(image, LABEL_PREPARED), *id = text_at(image, "Id");
		if (strncmp(key, proxy.instance, len) == 0 && key[len] == '/' &&
		    image_id_valid(id)) {
			ask("DELETE", NULL, on_image, (void *)id, "/images/%s?noprune=1", id);
			return;
		}
	}
	cleaned = 1;
	owned_list(0, 0, on_listed);
}

/* The rest needs our label's value. */
void
connect_instance(void)
{
	if (proxy.nano_cpus == 0 || proxy.instance[0] == '\0')
		return;
	if (cleaned)
		owned_list(0, 0, on_listed);
	else
		ask_list("/images/json?", LABEL_PREPARED, NULL, NULL, NULL, on_image, NULL);
}

/* Whether the engine may set what the kernel has for each IPC namespace: in a user namespace older
 * kernels refuse that. */
static int
has_own_ipc(json_t *answer)
{
	json_t *option;
	size_t i;

	json_array_foreach (json_object_get(answer, "SecurityOptions"), i, option) {
		const char *text = json_is_string(option) ? json_string_value(option) : "";

		if (strncmp(text, "name=rootless", 13) == 0 ||
		    strncmp(text, "name=userns", 11) == 0)
			return 0;
	}
	return !proxy.sentry;
}

/* What is asked of an engine before it is used. */
static void
abilities(json_t *answer)
{
	static const char *const need[] = {"MemoryLimit", "PidsLimit", "CpuCfsQuota"};
	const char *runtime = proxy.config->str[CFG_DOCKER_RUNTIME];

	for (size_t i = 0; i < sizeof(need) / sizeof(need[0]); i++)
		if (!json_is_true(json_object_get(answer, need[i])))
			fatal_config(
			    "the container engine cannot enforce limits: it has no %s", need[i]);
	if (runtime[0] != '\0' &&
	    json_object_get(json_object_get(answer, "Runtimes"), runtime) == NULL)
		fatal_config("DOCKER_RUNTIME: the container engine has no runtime \"%s\"", runtime);
	proxy.sentry = strstr(runtime, "runsc") != NULL;
	proxy.own_ipc = has_own_ipc(answer);
	proxy.nano_cpus = json_integer_value(json_object_get(answer, "NCPU")) * 1000000000;
	if (proxy.nano_cpus <= 0)
		fatal_config("the container engine says that it has no CPU");
}

static void
on_info(void *arg, int status, json_t *answer)
{
	char id[sizeof(state.id)];

	(void)arg;
	if (status != 200) {
		down("the container engine does not answer");
		return;
	}
	snprintf(id, sizeof(id), "%.63s/%s", text_at(answer, "ID"), network);
	for (char *p = id; *p != '\0'; p++)
		if (*p <= ' ' || *p > '~')
			*p = '_';
	if (proxy.up && strcmp(id, state.id) != 0) {
		down("the container engine has become another one");
		return;
	}
	if (proxy.up) {
		proxy.unsure = 0;
		settle(); /* it may have been restarted: managerd lists it again */
		return;
	}
	strlcpy(state.id, id, sizeof(state.id));
	abilities(answer);
	if (proxy.instance[0] == '\0' && when_settled != NULL) {
		when_settled();
		when_settled = NULL;
	}
	connect_instance();
}

static void
on_network(void *arg, int status, json_t *answer)
{
	const char *id = text_at(answer, "Id");

	(void)arg;
	if (status == 0) {
		down("the container engine does not answer");
		return;
	}
	strlcpy(network, id_valid(id) ? id : "", sizeof(network));
	ask("GET", NULL, on_info, NULL, "/info");
}

/*
 * Which engine it is. Before version 24 its own ID is that of the host, whatever it holds; but it
 * makes its network "none" once, together with what it holds.
 */
static void
identify(void)
{
	ask("GET", NULL, on_network, NULL, "/networks/none");
}

/* "1.N" to N, or -1. */
static int
minor_of(const char *text)
{
	int n, end = 0;

	return sscanf(text, "1.%4d%n", &n, &end) == 1 && text[end] == '\0' ? n : -1;
}

static void
on_version(void *arg, int status, json_t *answer)
{
	const char *max = text_at(answer, "ApiVersion"), *min = text_at(answer, "MinAPIVersion");
	json_t *part;
	size_t i;

	(void)arg;
	if (status == 0 || max[0] == '\0') {
		down(status == 0 ? "the container engine cannot be reached"
				 : "the container engine's socket does not speak its API");
		return;
	}
	json_array_foreach (json_object_get(answer, "Components"), i, part)
		if (strcasestr(text_at(part, "Name"), "podman") != NULL)
			fatal_config(
			    "the container engine is Podman, which is not supported: it closes a "
			    "container's input when an attached client leaves");
	if (minor_of(max) < API_MIN || minor_of(min) > API_MAX)
		fatal_config("the container engine speaks API %s to %s, agent-sandbox 1.%d to 1.%d",
		    min, max, API_MIN, API_MAX);
	proxy.minor = minor_of(max) < API_MAX ? minor_of(max) : API_MAX;
	strlcpy(state.version, text_at(answer, "Version"), sizeof(state.version));
	snprintf(state.api, sizeof(state.api), "1.%d", proxy.minor);
	strlcpy(proxy.arch, text_at(answer, "Arch"), sizeof(proxy.arch));
	identify();
}

static void
on_ping(void *arg, int status, json_t *answer)
{
	(void)arg, (void)answer;
	if (proxy.up && status != 200)
		down("the container engine does not answer");
	else if (proxy.up)
		evtimer_add(timer, &(struct timeval){.tv_sec = 1});
}

static void
on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct engine_call call = {.method = "GET", .seconds = PING_SECONDS};

	(void)fd, (void)what, (void)arg;
	call.done = proxy.up ? on_ping : on_version;
	if (proxy.up && !following && !proxy.unsure)
		follow();
	if (!proxy.up)
		event_ns = time_wall_us() * 1000;
	engine_call(&call, proxy.up ? "/_ping" : "/version");
}

void
connect_start(void (*settled)(void))
{
	when_settled = settled;
	if ((timer = evtimer_new(proxy.base, on_timer, NULL)) == NULL)
		fatalx("out of memory");
	on_timer(-1, 0, NULL);
}

static void
on_event(void *arg, json_t *line)
{
	static const char *const names[] = {[EVENT_START] = "start",
	    [EVENT_DIE] = "die",
	    [EVENT_PAUSE] = "pause",
	    [EVENT_UNPAUSE] = "unpause",
	    [EVENT_DESTROY] = "destroy"};
	const char *id = text_at(json_object_get(line, "Actor"), "ID");
	int64_t ns = json_integer_value(json_object_get(line, "timeNano"));
	struct m_d_event m = {0};

	(void)arg;
	if (ns > event_ns)
		event_ns = ns;
	strlcpy(m.container, id, sizeof(m.container));
	for (; m.event < sizeof(names) / sizeof(names[0]); m.event++)
		if (strcmp(text_at(line, "Action"), names[m.event]) == 0 && owned_find(id) != NULL)
			send_D_EVENT(proxy.manager, 0, &m, NULL, 0, -1);
}

/* Another engine may be behind the socket now: nothing is asked of it before that is known. */
static void
on_events_end(void *arg, int status, json_t *answer)
{
	(void)arg, (void)status, (void)answer;
	following = 0; /* the timer takes it up */
	if (!proxy.up || proxy.unsure)
		return;
	proxy.unsure = 1;
	identify();
}

/* What was missed is told first: the engine remembers some hundred events. */
static void
follow(void)
{
	struct engine_call call = {.method = "GET", .line = on_event, .done = on_events_end};

	following = 1;
	event_ns++;
	engine_call(&call,
	    "/events?since=%lld.%09lld&filters=%%7B%%22label%%22%%3A%%5B%%22" LABEL_INSTANCE
	    "%%3D%s%%22%%5D%%7D",
	    (long long)(event_ns / 1000000000), (long long)(event_ns % 1000000000), proxy.instance);
}
