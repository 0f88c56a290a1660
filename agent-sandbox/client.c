/* What the verbs share in talking to the server (client.h). */
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent-sandbox/client.h"
#include "agent-sandbox/options.h"
#include "agent-sandbox/show.h"
#include "clients/api/files.h"
#include "common/confine_client.h"
#include "common/ids.h"
#include "common/log.h"

static int fail_with, keeps_files;

void
client_keeps_files(void)
{
	keeps_files = 1;
}

void
client_standard_streams(void)
{
	/* Writing to what cannot be written is an error, as to one that is closed. */
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) == -1 && open("/dev/null", O_RDONLY) != fd)
			_exit(EXIT_REFUSED);
}

void
client_fail_with(int status)
{
	fail_with = status;
}

void
client_failx(int status, const char *fmt, ...)
{
	char text[API_TEXT_MAX * 2], line[API_TEXT_MAX * 3];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fflush(stdout);
	fprintf(stderr, "agent-sandbox: %s\n", show_line(text, line, sizeof(line)));
	exit(fail_with != 0 ? fail_with : status);
}

void
client_fail(const struct api_error *e)
{
	int status = EXIT_REFUSED;

	switch (e->kind) {
	case API_CONFIG:
		status = EXIT_USE;
		break;
	case API_UNREACHABLE:
	case API_BROKEN:
	case API_STRANGE:
		status = EXIT_UNREACHABLE;
		break;
	case API_REFUSED:
		if (e->status == 404 || e->status == 410)
			status = EXIT_NOT_FOUND;
		else if (e->status == 401 || e->status == 403)
			status = EXIT_KEY;
		break;
	case API_OK:
	case API_STOPPED:
		break;
	}
	client_failx(status, "%s", e->text);
}

const struct api_server *
client_server(void)
{
	static struct api_server server;
	struct api_error e;

	if (server.url != NULL)
		return &server;
	if (api_server_init(&server, &common_options.api, &e) == -1)
		client_fail(&e);
	/* TLS writes to sockets that may have been closed. */
	signal(SIGPIPE, SIG_IGN);
	api_start();
	confine_client(keeps_files ? NULL : api_files());
	return &server;
}

json_t *
client_run(struct api_call *c)
{
	struct api_error e;
	json_t *answer;

	if (api_call_run(c, &e) == -1)
		client_fail(&e);
	answer = json_incref((json_t *)(uintptr_t)api_call_json(c));
	api_call_free(c);
	return answer;
}

json_t *
client_ask_with(const char *method, char *path, json_t *body, const char *name, const char *value)
{
	struct api_call *c = api_call_new(client_server(), method, path);

	free(path);
	if (body != NULL)
		api_call_body(c, body);
	if (name != NULL)
		api_call_header(c, name, value);
	return client_run(c);
}

json_t *
client_ask(const char *method, char *path, json_t *body)
{
	return client_ask_with(method, path, body, NULL, NULL);
}

static void
strange(void)
{
	client_failx(EXIT_UNREACHABLE,
	    "%s gave an answer that is not this API's: check AGENT_SANDBOX_URL, and proxies in "
	    "between",
	    client_server()->url);
}

void
client_check(const json_t *answer, const char *member)
{
	if (!json_is_string(json_object_get(answer, member)))
		strange();
}

const json_t *
client_check_list(const json_t *answer, const char *list, const char *member)
{
	const json_t *array = json_object_get(answer, list), *one;
	size_t i;

	if (!json_is_array(array))
		strange();
	json_array_foreach (array, i, one) {
		client_check(one, member);
	}
	return array;
}

static char *
copy(const char *text)
{
	char *p = strdup(text);

	if (p == NULL)
		fatal("strdup");
	return p;
}

/* The one of the list whose id begins with text, with or without the prefix. */
static char *
pick(const json_t *list, const char *text, const char *prefix, const char *kind, const char *verb)
{
	char some[API_TEXT_MAX / 2] = "";
	const char *found = NULL;
	size_t i, n = 0, len = strlen(text), skip = strlen(prefix);
	uint64_t id_number;
	const json_t *one;

	json_array_foreach (list, i, one) {
		const char *id = client_text(one, "id");

		if (strncmp(id, prefix, skip) != 0)
			continue;
		if (strncmp(id, text, len) != 0 && strncmp(id + skip, text, len) != 0)
			continue;
		found = id;
		if (n++ < 4)
			snprintf(some + strlen(some), sizeof(some) - strlen(some), "%s%.40s",
			    n > 1 ? ", " : "", id);
	}
	/* It goes into paths and onto the terminal. */
	if (n == 1 && id_parse(found, prefix, &id_number) == -1)
		strange();
	if (n == 0)
		client_failx(EXIT_NOT_FOUND,
		    "there is no %s %.100s: \"agent-sandbox %s\" lists those there are", kind, text,
		    verb);
	if (n > 1)
		client_failx(EXIT_USE, "%.100s may be %zu %s: %s%s; give more of it", text, n,
		    strcmp(kind, "sandbox") == 0 ? "sandboxes" : "snapshots", some,
		    n > 4 ? ", ..." : "");
	return copy(found);
}

/* Could this be the beginning of an id? */
static int
is_beginning(const char *text, const char *prefix)
{
	size_t skip = strlen(prefix);

	if (strncmp(text, prefix, skip) == 0)
		text += skip;
	else if (strncmp(text, prefix, strlen(text)) == 0)
		return *text != '\0';
	return strspn(text, "0123456789abcdef") == strlen(text) && strlen(text) <= 16;
}

static char *
resolve(const char *text, const char *prefix, const char *kind, char *path, const char *verb)
{
	const char *member = strcmp(kind, "sandbox") == 0 ? "sandboxes" : "snapshots";
	uint64_t id;
	json_t *answer;
	char *found;

	if (id_parse(text, prefix, &id) == 0) {
		free(path);
		return copy(text);
	}
	if (!is_beginning(text, prefix))
		client_failx(EXIT_NOT_FOUND, "%.100s is no %s id: \"agent-sandbox %s\" lists them",
		    *text != '\0' ? text : "\"\"", kind, verb);
	answer = client_ask("GET", path, NULL);
	found = pick(client_check_list(answer, member, "id"), text, prefix, kind, verb);
	json_decref(answer);
	return found;
}

char *
client_sandbox(const char *text)
{
	return resolve(text, "sb_", "sandbox", api_path("/v1/sandboxes"), "ls");
}

char *
client_snapshot(const char *text)
{
	return resolve(text, "snap_", "snapshot", api_path("/v1/snapshots"), "snapshots");
}

int
client_is_snapshot(const char *text)
{
	return strncmp(text, "sn", 2) == 0;
}

int
client_is_place(const char *text)
{
	const char *colon = strchr(text, ':');

	/* As of scp: what has a slash before the colon is a file here. */
	return colon != NULL && colon != text && memchr(text, '/', (size_t)(colon - text)) == NULL;
}

int
client_split(const char *text, char **sandbox, const char **path)
{
	const char *colon = strchr(text, ':');

	if (!client_is_place(text))
		return -1;
	if ((*sandbox = strndup(text, (size_t)(colon - text))) == NULL)
		fatal("strndup");
	*path = colon + 1;
	return 0;
}

char *
client_place(const struct usage *u, const char *text, const char **path)
{
	char *beginning, *id;

	if (client_split(text, &beginning, path) == -1)
		options_wrong(u, "%s: SANDBOX:PATH is wanted", text);
	id = client_sandbox(beginning);
	free(beginning);
	return id;
}

const char *
client_text(const json_t *object, const char *name)
{
	const char *s = json_string_value(json_object_get(object, name));

	return s != NULL ? s : "";
}

int64_t
client_number(const json_t *object, const char *name)
{
	const json_t *v = json_object_get(object, name);

	double real = json_real_value(v);

	if (!json_is_real(v))
		return json_integer_value(v);
	return real >= 9e18 ? INT64_MAX : real <= -9e18 ? INT64_MIN : (int64_t)real;
}
