/* The engine's events about containers of ours, as they come; a stream that ends is taken up where
 * it ended. */
#include "dockerd-proxy/proxy.h"

#include <stdlib.h>
#include <string.h>
#include <bsd/string.h>
#include <event2/event.h>

static int64_t last_ns; /* of the last event seen */
static int following;
static struct event *again;

static void
on_line(void *arg __attribute__((unused)), json_t *line)
{
	static const char *const names[] = {[EVENT_START] = "start",
	    [EVENT_DIE] = "die",
	    [EVENT_PAUSE] = "pause",
	    [EVENT_UNPAUSE] = "unpause",
	    [EVENT_DESTROY] = "destroy"};
	const char *action = json_string_value(json_object_get(line, "Action"));
	const char *id = json_string_value(json_object_get(json_object_get(line, "Actor"), "ID"));
	int64_t ns = json_integer_value(json_object_get(line, "timeNano"));
	struct m_d_event m = {0};

	if (ns <= last_ns || action == NULL || !id_valid(id))
		return;
	last_ns = ns;
	for (; m.event < sizeof(names) / sizeof(names[0]); m.event++)
		if (strcmp(action, names[m.event]) == 0)
			break;
	if (m.event == sizeof(names) / sizeof(names[0]) || owned_find(id) == NULL)
		return;
	strlcpy(m.container, id, sizeof(m.container));
	send_D_EVENT(proxy.manager, 0, &m, NULL, 0, -1);
}

static void
on_end(void *arg __attribute__((unused)), int status __attribute__((unused)),
    json_t *answer __attribute__((unused)))
{
	following = 0;
	if (proxy.up)
		evtimer_add(again, &(struct timeval){.tv_sec = 1});
}

static void
follow(evutil_socket_t fd __attribute__((unused)), short what __attribute__((unused)),
    void *arg __attribute__((unused)))
{
	struct engine_call call = {.method = "GET", .line = on_line, .done = on_end};
	char *filter;

	if (following || !proxy.up)
		return;
	following = 1;
	filter = engine_filter("agent-sandbox.instance", proxy.instance, NULL);
	engine_call(&call, "/events?since=%lld.%09lld&filters=%s",
	    (long long)(last_ns / 1000000000), (long long)(last_ns % 1000000000), filter);
	free(filter);
}

void
events_start(int64_t since_ns)
{
	last_ns = since_ns;
	if (again == NULL && (again = evtimer_new(proxy.base, follow, NULL)) == NULL)
		fatalx("evtimer_new");
	follow(-1, 0, NULL);
}
