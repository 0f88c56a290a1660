/* agent-sandbox-cp: "agent-sandbox cp", a program of its own for the sake of its libraries. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent-sandbox/client.h"
#include "agent-sandbox/cp/cp.h"
#include "agent-sandbox/options.h"
#include "agent-sandbox/show.h"
#include "common/log.h"

struct cp_options cp_options;
volatile sig_atomic_t cp_caught;

static const struct option_row rows[] = {
    {"force", 'f', OPTION_FLAG, &cp_options.force, NULL,
	"here, replace files that exist; folders on both sides become one"},
    {"all-links", 0, OPTION_FLAG, &cp_options.all_links, NULL,
	"here, also make links that lead out of what is copied"},
    {"quiet", 'q', OPTION_FLAG, &cp_options.quiet, NULL, "do not show how far it is"},
    {0},
};
static const struct usage usage = {"cp", "FROM TO",
    "Copies a file or a folder: from SANDBOX:PATH to a path here, or the other way.", rows, 2, 2, 0,
    "Into a folder that exists, else TO is the new name. All of it is copied, or nothing.\n"
    "FOLDER/. is what is in a folder here. A path here with a colon: write ./ before it.",
    0};

static void
on_signal(int sig)
{
	cp_caught = sig;
}

static void
catch_signals(void)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction sa = {.sa_handler = on_signal}, old;

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
			sigaction(signals[i], &sa, NULL);
}

static void
say_what_was_done(const struct copied *c)
{
	if (c->links_left > 0)
		fprintf(stderr,
		    "agent-sandbox: left out: %lld links that lead out of what was copied "
		    "(--all-links makes them)\n",
		    (long long)c->links_left);
	if (c->left_out > 0)
		fprintf(stderr, "agent-sandbox: left out: %lld pipes, sockets or devices\n",
		    (long long)c->left_out);
	if (common_options.json) {
		json_t *done = json_pack("{s:I,s:I,s:I}", "files", (json_int_t)c->files, "bytes",
		    (json_int_t)c->bytes, "left_out", (json_int_t)(c->left_out + c->links_left));

		show_json(done);
		json_decref(done);
	}
}

int
main(int argc, char **argv)
{
	struct copied copied = {0};
	char *from = NULL, *to = NULL, *id;
	const char *from_path, *to_path;
	char **words;
	int n;

	client_standard_streams();
	log_init("agent-sandbox", LOG_LEVEL_INFO);
	words = options_read(&usage, argc - 1, argv + 1, &n);
	catch_signals();
	client_keeps_files();
	client_split(words[0], &from, &from_path);
	client_split(words[1], &to, &to_path);
	if (from != NULL && to != NULL)
		options_wrong(&usage, "one of the two must be here: copy to this machine first");
	if (from == NULL && to == NULL)
		options_wrong(&usage, "neither %s nor %s is SANDBOX:PATH", words[0], words[1]);
	id = client_sandbox(from != NULL ? from : to);
	if (from != NULL)
		down_copy(id, from_path, words[1], &copied);
	else
		up_copy(words[0], id, to_path, &copied);
	say_what_was_done(&copied);
	free(id);
	free(from);
	free(to);
	return show_end();
}
