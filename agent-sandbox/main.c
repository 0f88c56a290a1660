/* agent-sandbox, the command that people type: its verbs, for the client and for the server. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent-sandbox/client.h"
#include "agent-sandbox/doctor.h"
#include "agent-sandbox/show.h"
#include "agent-sandbox/verb.h"
#include "common/log.h"

/* A program beside this command, as in a build; in ../libexec; or where it was installed. It takes
 * over the process. */
static void
become(const char *program, char **argv)
{
	static const char *const places[] = {"", "/../libexec/agent-sandbox", NULL};
	char self[PATH_MAX], path[PATH_MAX + 64];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n == -1)
		fatal("/proc/self/exe");
	self[n] = '\0';
	*strrchr(self, '/') = '\0';
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(path, sizeof(path), "%s%s/%s", places[i] != NULL ? self : LIBEXECDIR,
		    places[i] != NULL ? places[i] : "", program);
		execv(path, argv);
		if (errno != ENOENT)
			fatal("%s", path);
	}
	fatalx("%s is neither beside this command nor in %s", program, LIBEXECDIR);
}

static int
verb_serve(int argc, char **argv)
{
	(void)argc;
	argv[-1] = (char *)(uintptr_t) "agent-sandboxd";
	become("agent-sandboxd", argv - 1);
	return EXIT_FAILURE;
}

/* Those of every verb, as they were given; returns how many words. */
static int
hand_on(char **all)
{
	const struct api_options *o = &common_options.api;
	const char *given[][2] = {{"--url", o->url}, {"--key-file", o->key_file},
	    {"--cacert", o->ca_file}, {"--cert", o->cert}, {"--cert-key", o->cert_key}};
	int n = 0;

	for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++) {
		if (given[i][1] != NULL) {
			all[n++] = (char *)(uintptr_t)given[i][0];
			all[n++] = (char *)(uintptr_t)given[i][1];
		}
	}
	if (common_options.json)
		all[n++] = (char *)(uintptr_t) "--json";
	return n;
}

/* A program of its own: it needs libraries whose start would cost every other verb time. */
static int
verb_cp(int argc, char **argv)
{
	char **all = calloc((size_t)argc + 16, sizeof(*all));
	int n = 0;

	if (all == NULL)
		fatal("cp");
	all[n++] = (char *)(uintptr_t) "agent-sandbox-cp";
	n += hand_on(all + n);
	for (int i = 0; i < argc; i++)
		all[n++] = argv[i];
	become("agent-sandbox-cp", all);
	return EXIT_FAILURE;
}

static const struct usage usage_serve = {"serve",
    "[-f FILE] [--host HOST] [--port PORT] [--adopt | --new-instance]",
    "Runs the server (agent-sandboxd); \"serve --help\" lists its settings.", NULL, 0, -1, 0, NULL,
    0};

static const struct usage usage_cp = {"cp", "FROM TO",
    "Copies files and folders: SANDBOX:PATH to a path here, or the other way.", NULL, 0, -1, 0,
    NULL, 0};

static struct {
	const char *file;
} doctor;

static const struct option_row doctor_rows[] = {
    {"file", 'f', OPTION_TEXT, &doctor.file, "FILE", "the settings of the server are in this file"},
    {0},
};
static const struct usage usage_doctor = {"doctor", "",
    "Says what this host gives a server, what would not work, and what would be weaker.",
    doctor_rows, 0, 0, 0, NULL, 1};

static int
verb_doctor(int argc, char **argv)
{
	int n;

	options_read(&usage_doctor, argc, argv, &n);
	return doctor_run(doctor.file);
}

/* What the command can do, in the order of its help; from usage come the help of each verb and the
 * reading of its options. A row without a verb is a heading. */
static const struct verb {
	const struct usage *usage;
	verb_run *run;
	const char *heading;
} verbs[] = {
    {NULL, NULL, "Runs"},
    {&usage_run, verb_run_code, NULL},
    {NULL, NULL, "Sandboxes"},
    {&usage_create, verb_create, NULL},
    {&usage_ls, verb_ls, NULL},
    {&usage_show, verb_show, NULL},
    {&usage_exec, verb_exec, NULL},
    {&usage_timeout, verb_timeout, NULL},
    {&usage_rm, verb_rm, NULL},
    {NULL, NULL, "Files"},
    {&usage_cp, verb_cp, NULL},
    {&usage_cat, verb_cat, NULL},
    {&usage_put, verb_put, NULL},
    {&usage_files, verb_files, NULL},
    {NULL, NULL, "Snapshots"},
    {&usage_snapshot, verb_snapshot, NULL},
    {&usage_snapshots, verb_snapshots, NULL},
    {&usage_rollback, verb_rollback, NULL},
    {&usage_fork, verb_fork, NULL},
    {NULL, NULL, "Server"},
    {&usage_serve, verb_serve, NULL},
    {&usage_keygen, verb_keygen, NULL},
    {&usage_keys, verb_keys, NULL},
    {&usage_audit, verb_audit, NULL},
    {&usage_openapi, verb_openapi, NULL},
    {&usage_doctor, verb_doctor, NULL},
    {&usage_selftest, verb_selftest, NULL},
};
#define VERBS (sizeof(verbs) / sizeof(verbs[0]))

static void
print_help(void)
{
	printf("usage: agent-sandbox VERB [OPTIONS] [ARGUMENTS]\n"
	       "       agent-sandbox VERB --help\n"
	       "       agent-sandbox --version\n");
	for (size_t i = 0; i < VERBS; i++) {
		const struct usage *u = verbs[i].usage;

		if (u == NULL)
			printf("\n%s:\n", verbs[i].heading);
		else
			printf("  %-10s %s\n", u->name, u->what);
	}
	printf(
	    "\nSANDBOX and SNAPSHOT are ids, or the beginning of one that no other has.\n"
	    "\n"
	    "AGENT_SANDBOX_URL is where the server is (else http://127.0.0.1:8080); the key is in\n"
	    "AGENT_SANDBOX_API_KEY, in the file AGENT_SANDBOX_API_KEY_FILE, or in\n"
	    "~/.config/agent-sandbox/key. AGENT_SANDBOX_CA_FILE names the CA of an https server\n"
	    "that this machine does not trust by itself. The options for these, and --json, go\n"
	    "with every verb that asks it: see the help of one.\n"
	    "\n"
	    "Exit status: 0 done; 1 refused or failed; 2 wrong use; 3 not found; 4 the key is "
	    "refused;\n"
	    "5 the server cannot be reached, or it is not this server that answers.\n");
}

static const struct verb *
find_verb(const char *name)
{
	for (size_t i = 0; i < VERBS; i++)
		if (verbs[i].usage != NULL && strcmp(verbs[i].usage->name, name) == 0)
			return &verbs[i];
	return NULL;
}

int
main(int argc, char **argv)
{
	const struct verb *verb;
	int skip;

	client_standard_streams();
	log_init("agent-sandbox", LOG_LEVEL_INFO);
	skip = options_read_common(argc - 1, argv + 1);
	argc -= skip;
	argv += skip;
	if (argc < 2)
		options_wrong(NULL, "a verb is missing");
	if (strcmp(argv[1], "--version") == 0 && argc == 2) {
		puts("agent-sandbox " VERSION);
		return show_end();
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
	    (strcmp(argv[1], "help") == 0 && argc == 2)) {
		print_help();
		return show_end();
	}
	if (strcmp(argv[1], "help") == 0) {
		argv[1] = argv[2];
		argv[2] = (char *)(uintptr_t) "--help";
		argc = 3;
	}
	if ((verb = find_verb(argv[1])) == NULL)
		options_wrong(NULL, "there is no verb %s", argv[1]);
	return verb->run(argc - 2, argv + 2);
}
