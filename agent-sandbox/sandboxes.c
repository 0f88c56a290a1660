/* Verbs for sandboxes as a whole: create, ls, show, timeout, rm. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent-sandbox/client.h"
#include "agent-sandbox/object.h"
#include "agent-sandbox/show.h"
#include "agent-sandbox/verb.h"

static struct {
	const char *image, *idempotency_key;
	double cpus, timeout;
	long long memory_mb, pids;
	int network, no_egress, writable;
	struct texts egress, env, labels;
} create;

static const struct option_row create_rows[] = {
    {"image", 'i', OPTION_TEXT, &create.image, "IMAGE", "image to start from (else the server's)"},
    {"timeout", 't', OPTION_SECONDS, &create.timeout, "TIME", "time to live: 90, 15m, 2h, 1d"},
    {"cpus", 'c', OPTION_NUMBER, &create.cpus, "N", "processors, such as 0.5"},
    {"memory", 'm', OPTION_MB, &create.memory_mb, "MB", "memory in MiB, or such as 2g"},
    {"pids", 0, OPTION_WHOLE, &create.pids, "N", "processes and threads at once"},
    {"network", 'n', OPTION_FLAG, &create.network, NULL, "with a way to the network"},
    {"egress", 0, OPTION_LIST, &create.egress, "HOST",
	"reaches HOST (name, name:port, *.name, address) and nothing else"},
    {"no-egress", 0, OPTION_FLAG, &create.no_egress, NULL,
	"reaches nothing, also where the server has a list of its own"},
    {"writable", 0, OPTION_FLAG, &create.writable, NULL,
	"all of the file system can be written, not only /workspace and /tmp"},
    {"env", 'e', OPTION_LIST, &create.env, "NAME=VALUE", "for every command; NAME takes yours"},
    {"label", 'l', OPTION_LIST, &create.labels, "NAME=VALUE", "to find it by"},
    {"idempotency-key", 0, OPTION_WORD, &create.idempotency_key, "KEY",
	"the same key gives the same sandbox again, for 24 hours"},
    {0},
};
const struct usage usage_create = {
    "create", "[IMAGE]", "Makes a sandbox and prints its id.", create_rows, 0, 1, 0, NULL, 0};

int
verb_create(int argc, char **argv)
{
	json_t *body = json_object(), *answer;
	int n;
	char **words = options_read(&usage_create, argc, argv, &n);

	if (create.network && (create.egress.n > 0 || create.no_egress))
		options_wrong(&usage_create, "--network and --%s cannot both be",
		    create.no_egress ? "no-egress" : "egress");
	if (n == 1 && create.image != NULL)
		options_wrong(&usage_create, "the image is given twice");
	if (n == 1)
		create.image = words[0];
	if (create.image != NULL)
		json_object_set_new(body, "image", object_text(&usage_create, create.image));
	if (create.cpus > 0)
		json_object_set_new(body, "cpus", json_real(create.cpus));
	if (create.timeout > 0)
		json_object_set_new(
		    body, "timeout_seconds", object_seconds(&usage_create, create.timeout));
	if (create.memory_mb > 0)
		json_object_set_new(body, "memory_mb", json_integer(create.memory_mb));
	if (create.pids > 0)
		json_object_set_new(body, "pids_limit", json_integer(create.pids));
	if (create.network)
		json_object_set_new(body, "network", json_true());
	object_egress(&usage_create, body, &create.egress, create.no_egress);
	if (create.writable)
		json_object_set_new(body, "read_only_rootfs", json_false());
	if (create.env.n > 0)
		json_object_set_new(body, "env", object_env(&usage_create, &create.env));
	if (create.labels.n > 0)
		json_object_set_new(body, "labels", object_pairs(&usage_create, &create.labels));
	answer = client_ask_with("POST", api_path("/v1/sandboxes"), body,
	    create.idempotency_key != NULL ? "Idempotency-Key" : NULL, create.idempotency_key);
	return object_print_id(answer);
}

static struct {
	int quiet;
	struct texts labels;
} ls;

static const struct option_row ls_rows[] = {
    {"quiet", 'q', OPTION_FLAG, &ls.quiet, NULL, "print ids only"},
    {"label", 'l', OPTION_LIST, &ls.labels, "NAME=VALUE", "only those with this label"},
    {0},
};
const struct usage usage_ls = {
    "ls", "", "Lists the sandboxes, oldest first.", ls_rows, 0, 0, 0, NULL, 0};

static void
list_row(struct table *t, const json_t *s)
{
	const char *status = client_text(s, "status");
	char text[64];

	table_cell(t, client_text(s, "id"));
	table_marked(t, status, strcmp(status, "running") == 0 ? COLOUR_GREEN : COLOUR_YELLOW);
	table_cell(t, client_text(s, "image"));
	snprintf(text, sizeof(text), "%g", json_number_value(json_object_get(s, "cpus")));
	table_cell(t, text);
	snprintf(text, sizeof(text), "%lld MiB", (long long)client_number(s, "memory_mb"));
	table_cell(t, text);
	table_cell(t, object_way_out(s, text));
	table_cell(t, object_left(s, text));
	table_cell(t, object_labels(s));
}

int
verb_ls(int argc, char **argv)
{
	static const char *const headings[] = {
	    "ID", "STATUS", "IMAGE", ">CPUS", ">MEMORY", "WAY OUT", ">LEFT", "LABELS"};
	json_t *answer;
	const json_t *list, *one;
	struct table *t;
	size_t i;
	int n;

	options_read(&usage_ls, argc, argv, &n);
	if (ls.labels.n > 1)
		options_wrong(&usage_ls, "one --label at a time");
	answer = client_ask("GET",
	    ls.labels.n > 0 ? api_path("/v1/sandboxes?label=%s", ls.labels.v[0])
			    : api_path("/v1/sandboxes"),
	    NULL);
	list = client_check_list(answer, "sandboxes", "id");
	if (object_print_list(answer, list, ls.quiet))
		return show_end();
	t = table_new(headings, sizeof(headings) / sizeof(headings[0]));
	json_array_foreach (list, i, one) {
		list_row(t, one);
	}
	table_print(t);
	json_decref(answer);
	return show_end();
}

const struct usage usage_show = {
    "show", "ID", "Shows a sandbox or a snapshot.", NULL, 1, 1, 0, NULL, 0};

int
verb_show(int argc, char **argv)
{
	int n;
	char **words = options_read(&usage_show, argc, argv, &n);
	char *id, *path;
	json_t *answer;

	if (client_is_snapshot(words[0])) {
		id = client_snapshot(words[0]);
		path = api_path("/v1/snapshots/%s", id);
	} else {
		id = client_sandbox(words[0]);
		path = api_path("/v1/sandboxes/%s?detail=true", id);
	}
	answer = client_ask("GET", path, NULL);
	object_print(answer);
	json_decref(answer);
	free(id);
	return show_end();
}

const struct usage usage_timeout = {"timeout", "SANDBOX TIME",
    "Sets when the sandbox ends: TIME from now, such as 90, 15m, 2h or 1d.", NULL, 2, 2, 0, NULL,
    0};

int
verb_timeout(int argc, char **argv)
{
	int n;
	char **words = options_read(&usage_timeout, argc, argv, &n), *id;
	double seconds;
	json_t *answer;
	char left[64];

	if (options_seconds(words[1], &seconds) == -1)
		options_wrong(&usage_timeout, "%s is not a time such as 90, 15m or 2h", words[1]);
	id = client_sandbox(words[0]);
	answer = client_ask("POST", api_path("/v1/sandboxes/%s/timeout", id),
	    json_pack("{s:o}", "timeout_seconds", object_seconds(&usage_timeout, seconds)));
	client_check(answer, "id");
	if (common_options.json)
		show_json(answer);
	else
		printf("%s ends in %s\n", id, object_left(answer, left));
	json_decref(answer);
	free(id);
	return show_end();
}

static struct {
	int force;
} rm;

static const struct option_row rm_rows[] = {
    {"force", 'f', OPTION_FLAG, &rm.force, NULL, "that one is gone already is no error"},
    {0},
};
const struct usage usage_rm = {"rm", "ID...", "Deletes sandboxes, or snapshots.", rm_rows, 1, -1, 0,
    "A sandbox's workspace goes with it; its snapshots stay.", 0};

/* NULL when it is not there and need not be. */
static char *
find_to_remove(const char *word, int is_snapshot)
{
	char *id;

	if (!rm.force || strlen(word) < 6)
		return is_snapshot ? client_snapshot(word) : client_sandbox(word);
	if ((id = strdup(word)) == NULL)
		client_failx(EXIT_REFUSED, "no memory");
	return id;
}

static int
remove_one(const char *word, json_t *done)
{
	int is_snapshot = client_is_snapshot(word);
	char *id = find_to_remove(word, is_snapshot), *path;
	struct api_call *c;
	struct api_error e;

	path = is_snapshot ? api_path("/v1/snapshots/%s", id) : api_path("/v1/sandboxes/%s", id);
	c = api_call_new(client_server(), "DELETE", path);
	if (api_call_run(c, &e) == -1) {
		if (!rm.force || e.status != 404)
			client_fail(&e);
	} else {
		json_array_append_new(done, json_string(id));
	}
	api_call_free(c);
	free(path);
	free(id);
	return 0;
}

int
verb_rm(int argc, char **argv)
{
	json_t *done = json_array();
	int n;
	char **words = options_read(&usage_rm, argc, argv, &n);

	for (int i = 0; i < n; i++)
		remove_one(words[i], done);
	if (common_options.json)
		show_json(done);
	json_decref(done);
	return show_end();
}
