/* Verbs for snapshots: snapshot, snapshots, rollback, fork. */
#include <stdio.h>
#include <stdlib.h>

#include "agent-sandbox/client.h"
#include "agent-sandbox/object.h"
#include "agent-sandbox/show.h"
#include "agent-sandbox/verb.h"

const struct usage usage_snapshot = {"snapshot", "SANDBOX [NAME]",
    "Keeps the sandbox's workspace as it is now, and prints the snapshot's id.", NULL, 1, 2, 0,
    NULL, 0};

int
verb_snapshot(int argc, char **argv)
{
	int n;
	char **words = options_read(&usage_snapshot, argc, argv, &n), *id;
	json_t *body = NULL, *answer;

	if (n == 2)
		body = json_pack("{s:o}", "name", object_text(&usage_snapshot, words[1]));
	id = client_sandbox(words[0]);
	answer = client_ask("POST", api_path("/v1/sandboxes/%s/snapshots", id), body);
	free(id);
	return object_print_id(answer);
}

static struct {
	int quiet;
} snapshots;

static const struct option_row snapshots_rows[] = {
    {"quiet", 'q', OPTION_FLAG, &snapshots.quiet, NULL, "print ids only"},
    {0},
};
const struct usage usage_snapshots = {"snapshots", "[SANDBOX]",
    "Lists the snapshots, all or one sandbox's, oldest first.", snapshots_rows, 0, 1, 0,
    "The SANDBOX may be gone; then its whole id is wanted.", 0};

static void
snapshot_row(struct table *t, const json_t *s)
{
	char size[SHOW_SIZE_MAX];

	table_cell(t, client_text(s, "id"));
	table_cell(t, client_text(s, "name"));
	table_cell(t, client_text(s, "sandbox_id"));
	table_cell(t, client_text(s, "parent_snapshot_id"));
	table_cell(t, show_size(size, client_number(s, "size_bytes")));
	table_cell(t, show_size(size, client_number(s, "stored_bytes")));
	table_cell(t, client_text(s, "created_at"));
}

int
verb_snapshots(int argc, char **argv)
{
	static const char *const headings[] = {
	    "ID", "NAME", "SANDBOX", "PARENT", ">SIZE", ">STORED", "CREATED"};
	int n;
	char **words = options_read(&usage_snapshots, argc, argv, &n), *id = NULL;
	const json_t *list, *one;
	struct table *t;
	json_t *answer;
	size_t i;

	if (n == 1)
		id = client_sandbox(words[0]);
	answer = client_ask("GET",
	    id != NULL ? api_path("/v1/snapshots?sandbox_id=%s", id) : api_path("/v1/snapshots"),
	    NULL);
	free(id);
	list = client_check_list(answer, "snapshots", "id");
	if (object_print_list(answer, list, snapshots.quiet))
		return show_end();
	t = table_new(headings, sizeof(headings) / sizeof(headings[0]));
	json_array_foreach (list, i, one) {
		snapshot_row(t, one);
	}
	table_print(t);
	json_decref(answer);
	return show_end();
}

const struct usage usage_rollback = {"rollback", "SANDBOX SNAPSHOT",
    "Puts the workspace back to what the snapshot holds; every process in the sandbox ends.", NULL,
    2, 2, 0, NULL, 0};

int
verb_rollback(int argc, char **argv)
{
	int n;
	char **words = options_read(&usage_rollback, argc, argv, &n);
	char *sandbox = client_sandbox(words[0]), *snapshot = client_snapshot(words[1]);
	json_t *answer = client_ask("POST", api_path("/v1/sandboxes/%s/rollback", sandbox),
	    json_pack("{s:s}", "snapshot_id", snapshot));

	client_check(answer, "id");
	if (common_options.json)
		show_json(answer);
	else
		printf("%s is as in %s\n", sandbox, snapshot);
	json_decref(answer);
	free(sandbox);
	free(snapshot);
	return show_end();
}

static struct {
	double cpus, timeout;
	long long memory_mb;
	int network, no_network;
	const char *idempotency_key;
} fork_options;

static const struct option_row fork_rows[] = {
    {"timeout", 't', OPTION_SECONDS, &fork_options.timeout, "TIME", "time to live: 90, 15m, 2h"},
    {"cpus", 'c', OPTION_NUMBER, &fork_options.cpus, "N", "processors, such as 0.5"},
    {"memory", 'm', OPTION_MB, &fork_options.memory_mb, "MB", "memory in MiB, or such as 2g"},
    {"network", 'n', OPTION_FLAG, &fork_options.network, NULL, "with a way to the network"},
    {"no-network", 0, OPTION_FLAG, &fork_options.no_network, NULL, "without one"},
    {"idempotency-key", 0, OPTION_WORD, &fork_options.idempotency_key, "KEY",
	"the same key gives the same sandbox again, for 24 hours"},
    {0},
};
const struct usage usage_fork = {"fork", "SNAPSHOT",
    "Makes a new sandbox with the snapshot's workspace, and prints its id.", fork_rows, 1, 1, 0,
    "What is not given is as it was in the sandbox that the snapshot is of.", 0};

int
verb_fork(int argc, char **argv)
{
	int n;
	char **words = options_read(&usage_fork, argc, argv, &n), *snapshot;
	json_t *body = json_object(), *answer;

	if (fork_options.network && fork_options.no_network)
		options_wrong(&usage_fork, "--network and --no-network cannot both be");
	if (fork_options.timeout > 0)
		json_object_set_new(
		    body, "timeout_seconds", object_seconds(&usage_fork, fork_options.timeout));
	if (fork_options.cpus > 0)
		json_object_set_new(body, "cpus", json_real(fork_options.cpus));
	if (fork_options.memory_mb > 0)
		json_object_set_new(body, "memory_mb", json_integer(fork_options.memory_mb));
	if (fork_options.network || fork_options.no_network)
		json_object_set_new(body, "network", json_boolean(fork_options.network));
	snapshot = client_snapshot(words[0]);
	answer = client_ask_with("POST", api_path("/v1/snapshots/%s/fork", snapshot), body,
	    fork_options.idempotency_key != NULL ? "Idempotency-Key" : NULL,
	    fork_options.idempotency_key);
	free(snapshot);
	return object_print_id(answer);
}
