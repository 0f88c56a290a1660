/*
 * "agent-sandbox selftest": makes a fresh sandbox of each mode, lets a program in it try the ways
 * out (selftest/), looks at what only the outside can see, and removes it again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent-sandbox/client.h"
#include "agent-sandbox/object.h"
#include "agent-sandbox/selftest.h"
#include "agent-sandbox/verb.h"
#include "common/embed.h"
#include "selftest/checks.h"

EMBED(probe_program, PROBE_PATH);

#define PROBE "/workspace/selftest-probe"
#define LIFE_SECONDS 600
#define PROBE_SECONDS 280

struct selftest_options selftest;

static const struct option_row selftest_rows[] = {
    {"target", 't', OPTION_WORD, &selftest.target, "NAME",
	"a host that answers on ports 80 and 443, to be allowed and reached"},
    {"rebind", 0, OPTION_WORD, &selftest.rebind, "NAME",
	"a name whose addresses are not public, to be allowed and refused"},
    {"near", 0, OPTION_LIST, &selftest.near, "SERVICE",
	"ADDRESS:PORT near the server that no sandbox may reach"},
    {"offline", 0, OPTION_FLAG, &selftest.offline, NULL,
	"without a target: what needs one is left out"},
    {"mode", 'm', OPTION_LIST, &selftest.modes, "MODE",
	"only these: none, list, network (else all)"},
    {"only", 'o', OPTION_LIST, &selftest.only, "CHECK", "only these checks"},
    {"image", 'i', OPTION_TEXT, &selftest.image, "IMAGE", "image to test (else the server's)"},
    {0},
};
const struct usage usage_selftest = {"selftest", "",
    "Tries from inside fresh sandboxes to get out; says what held and what did not.", selftest_rows,
    0, 0, 0,
    "Modes: none (a sandbox as most are), list (an egress allowlist), network (\"network\":\n"
    "true). Exit status: 0 all holds; 1 something is broken, or neither --target nor --offline\n"
    "was given.",
    0};

/* One sandbox under test. */
struct box {
	char id[64];
	json_t *made; /* the answer to its creation */
	int tested;   /* not only there to be reached */
};

static json_t *
keep(struct api_call *c, struct api_error *e)
{
	json_t *answer = NULL;

	if (api_call_run(c, e) == 0) {
		answer = json_incref((json_t *)(uintptr_t)api_call_json(c));
		if (answer == NULL)
			answer = json_null();
	}
	api_call_free(c);
	return answer;
}

/* Unlike client_ask(), an error ends nothing: the sandbox must go. */
static json_t *
ask(const char *method, char *path, json_t *body, struct api_error *e)
{
	struct api_call *c = api_call_new(client_server(), method, path);

	free(path);
	if (body != NULL)
		api_call_body(c, body);
	return keep(c, e);
}

/* The request's body of a mode. */
static json_t *
wish(const char *mode)
{
	json_t *body = json_pack("{si}", "timeout_seconds", LIFE_SECONDS), *list;

	if (selftest.image != NULL)
		json_object_set_new(body, "image", object_text(&usage_selftest, selftest.image));
	if (strcmp(mode, "network") == 0)
		json_object_set_new(body, "network", json_true());
	if (strcmp(mode, "list") != 0)
		return body;
	list = json_pack(
	    "[ssss]", "0.0.0.0/0", "::/0", "listed.selftest.invalid", "*.below.selftest.invalid");
	if (selftest.target != NULL)
		json_array_append_new(list, json_string(selftest.target));
	if (selftest.rebind != NULL)
		json_array_append_new(list, json_string(selftest.rebind));
	json_object_set_new(body, "egress_allowlist", list);
	return body;
}

/* The program goes in. 0, or -1 and it is said. */
static int
upload(const struct box *b)
{
	char *path = api_path("/v1/sandboxes/%s/files?path=%s&mode=755", b->id, PROBE);
	struct api_call *c = api_call_new(client_server(), "PUT", path);
	struct api_error e;
	json_t *answer;

	free(path);
	api_call_bytes(c, probe_program, probe_program_size);
	if ((answer = keep(c, &e)) == NULL)
		reportf(SELFTEST_BROKEN, "upload", "%s", e.text);
	json_decref(answer);
	return answer != NULL ? 0 : -1;
}

/* Runs a command; its standard output, to be freed, or NULL and it is said. Takes the reference. */
static char *
run(const struct box *b, json_t *command)
{
	json_t *body = json_pack("{so si}", "command", command, "timeout_seconds", PROBE_SECONDS);
	struct api_error e;
	json_t *answer = ask("POST", api_path("/v1/sandboxes/%s/exec", b->id), body, &e);
	char *out = NULL;

	if (answer == NULL) {
		reportf(SELFTEST_BROKEN, "run", "%s", e.text);
		return NULL;
	}
	if (client_number(answer, "exit_code") != 0 ||
	    !json_is_integer(json_object_get(answer, "exit_code")))
		reportf(SELFTEST_BROKEN, "run", "the program inside ended with %d: %.300s",
		    (int)client_number(answer, "exit_code"), client_text(answer, "stderr"));
	else
		out = strdup(client_text(answer, "stdout"));
	json_decref(answer);
	return out;
}

/* What the operator does not allow leads nowhere, which is fine; but some sandbox there must be. */
static int
is_refused(const struct api_error *e, const char *mode)
{
	if (strcmp(mode, "none") == 0)
		return 0;
	return e->status == 403 ||
	       (e->status == 400 && strstr(e->text, "server's own list") != NULL);
}

/* A sandbox with the program in it: 0; -1: none, which is said. An error ends all, unless another
 * one is there, which must go. */
static int
make(struct box *b, const char *mode, const struct box *other)
{
	struct api_error e;

	memset(b, 0, sizeof(*b));
	if ((b->made = ask("POST", api_path("/v1/sandboxes"), wish(mode), &e)) == NULL) {
		if (is_refused(&e, mode))
			report(SELFTEST_REFUSED, "create", e.text);
		else if (other != NULL)
			reportf(SELFTEST_BROKEN, "create", "a second sandbox: %s", e.text);
		else
			client_fail(&e);
		return -1;
	}
	client_check(b->made, "id");
	snprintf(b->id, sizeof(b->id), "%s", client_text(b->made, "id"));
	return upload(b);
}

static void
unmake(struct box *b)
{
	struct api_error e;
	json_t *answer;

	if (b->id[0] == '\0')
		return;
	answer = ask("DELETE", api_path("/v1/sandboxes/%s", b->id), NULL, &e);
	if (answer == NULL)
		reportf(SELFTEST_BROKEN, "gone", "%s", e.text);
	json_decref(answer);
	if (answer != NULL && b->tested && report_wants("gone")) {
		answer = ask("GET", api_path("/v1/sandboxes/%s", b->id), NULL, &e);
		if (answer != NULL || e.status != 404)
			report(SELFTEST_BROKEN, "gone", "it is still there after its removal");
		else
			report(SELFTEST_OK, "gone", "after its removal: 404");
		json_decref(answer);
	}
	json_decref(b->made);
	b->id[0] = '\0';
}

/* Which rows apply. The server's setting says where "network" leads; inside it shows. */
static unsigned
mode_bit(const struct box *b, const char *mode, const char **name)
{
	const json_t *list = json_object_get(b->made, "egress_allowlist");
	unsigned bit = MODE_BRIDGE;
	char *text;

	*name = mode;
	if (strcmp(mode, "list") == 0)
		return MODE_LIST;
	if (strcmp(mode, "none") == 0) {
		*name = json_array_size(list) > 0 ? "default" : mode;
		return json_array_size(list) > 0 ? MODE_PROXY : MODE_NONE;
	}
	text = run(b, json_pack("[ss]", PROBE, "environments"));
	if (text != NULL && strstr(text, "\nHTTP_PROXY=http://127.0.0.1:3128") != NULL)
		bit = MODE_PROXY;
	free(text);
	*name = bit == MODE_PROXY ? "proxy" : "bridge";
	return bit;
}

static const char *
bit_name(unsigned bit)
{
	return bit == MODE_NONE    ? "none"
	       : bit == MODE_LIST  ? "list"
	       : bit == MODE_PROXY ? "proxy"
				   : "bridge";
}

static void
add(json_t *command, const char *option, const char *value)
{
	if (value == NULL)
		return;
	json_array_append_new(command, json_string(option));
	json_array_append_new(command, json_string(value));
}

/* What the program inside cannot know. */
static void
look_from_outside(const struct box *b, const char *mode)
{
	const char *key = client_server()->key;
	int network = json_is_true(json_object_get(b->made, "network"));
	char *text;

	if (report_wants("answer"))
		reportf(network == (strcmp(mode, "network") == 0) ? SELFTEST_OK : SELFTEST_BROKEN,
		    "answer", "the server says \"network\": %s", network ? "true" : "false");
	if (!report_wants("key") ||
	    (text = run(b, json_pack("[ss]", PROBE, "environments"))) == NULL)
		return;
	if (key != NULL && strstr(text, key) != NULL)
		report(SELFTEST_BROKEN, "key", "the API key is in a process's environment");
	else
		reportf(SELFTEST_OK, "key",
		    "not in the %zu bytes of environments and arguments that can be read",
		    strlen(text));
	free(text);
}

static void
test(const struct box *b, const char *mode, const struct box *other)
{
	json_t *command = json_pack("[s]", PROBE);
	const char *name;
	unsigned bit = mode_bit(b, mode, &name);
	char *neighbour = NULL, *output;

	report_mode(name);
	if (bit == MODE_BRIDGE && other->id[0] != '\0' && report_wants("neighbours")) {
		neighbour = run(other, json_pack("[ss]", PROBE, "neighbour"));
		if (neighbour != NULL)
			neighbour[strcspn(neighbour, "\n")] = '\0';
		add(command, "-b", neighbour);
	}
	add(command, "-t", selftest.target);
	add(command, "-r", selftest.rebind);
	for (size_t i = 0; i < selftest.only.n; i++)
		add(command, "-o", selftest.only.v[i]);
	host_arguments(command, client_server()->url);
	json_array_append_new(command, json_string(bit_name(bit)));
	if ((output = run(b, command)) != NULL)
		report_lines(bit, output);
	free(output);
	free(neighbour);
	look_from_outside(b, mode);
}

static void
test_mode(const char *mode)
{
	struct box b, other = {0};

	for (size_t i = 0; i < selftest.modes.n; i++)
		if (strcmp(selftest.modes.v[i], mode) == 0)
			goto wanted;
	if (selftest.modes.n > 0)
		return;
wanted:
	report_mode(mode);
	if (make(&b, mode, NULL) == 0) {
		if (strcmp(mode, "network") == 0 && report_wants("neighbours"))
			make(&other, mode, &b);
		b.tested = 1;
		test(&b, mode, &other);
	}
	unmake(&other);
	unmake(&b);
}

int
verb_selftest(int argc, char **argv)
{
	static const char *const modes[] = {"none", "list", "network"};
	size_t i, k;
	int n;

	options_read(&usage_selftest, argc, argv, &n);
	for (i = 0; i < selftest.modes.n; i++) {
		for (k = 0; k < 3 && strcmp(modes[k], selftest.modes.v[i]) != 0; k++)
			;
		if (k == 3)
			options_wrong(&usage_selftest, "there is no mode %s", selftest.modes.v[i]);
	}
	for (i = 0; i < selftest.only.n; i++)
		if (!report_knows(selftest.only.v[i]))
			options_wrong(&usage_selftest, "there is no check %s", selftest.only.v[i]);
	host_find();
	for (i = 0; i < 3; i++)
		test_mode(modes[i]);
	return report_end();
}
