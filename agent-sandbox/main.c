/* agent-sandbox, the command that people type: starts the server, makes keys, examines the host. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <bsd/stdlib.h>

#include "agent-sandbox/doctor.h"
#include "common/log.h"

#define KEY_PREFIX "as_"
#define KEY_LETTERS 43 /* of 62: 256 bits */

static const char usage[] =
    "usage: agent-sandbox serve [-f FILE] [--host HOST] [--port PORT] [--adopt | --new-instance]\n"
    "       agent-sandbox keygen\n"
    "       agent-sandbox doctor [-f FILE]\n"
    "       agent-sandbox --version | --help\n"
    "\n"
    "  serve    run the server (agent-sandboxd); its settings: agent-sandbox serve --help\n"
    "  keygen   print a new API key for AGENT_SANDBOX_API_KEYS\n"
    "  doctor   say what this host gives, what would not work, and what would be weaker\n";

static int
wrong(const char *what)
{
	fprintf(stderr, "agent-sandbox: %s\n%s", what, usage);
	return EXIT_CONFIG;
}

/* The server beside this command, as in a build; in ../libexec; or where it was installed. It takes
 * over the process. */
static int
serve(char **argv)
{
	static const char *const places[] = {"", "/../libexec/agent-sandbox", NULL};
	char self[PATH_MAX], path[PATH_MAX + 32];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n == -1)
		fatal("/proc/self/exe");
	self[n] = '\0';
	*strrchr(self, '/') = '\0';
	argv[0] = "agent-sandboxd";
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(path, sizeof(path), "%s%s/agent-sandboxd",
		    places[i] != NULL ? self : LIBEXECDIR, places[i] != NULL ? places[i] : "");
		execv(path, argv);
		if (errno != ENOENT)
			fatal("%s", path);
	}
	fatalx("agent-sandboxd is neither beside this command nor in %s", LIBEXECDIR);
}

static int
keygen(void)
{
	static const char letters[] =
	    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
	char key[sizeof(KEY_PREFIX) + KEY_LETTERS] = KEY_PREFIX;
	size_t n = strlen(key);

	for (int i = 0; i < KEY_LETTERS; i++)
		key[n++] = letters[arc4random_uniform(sizeof(letters) - 1)];
	if (puts(key) == EOF || fflush(stdout) == EOF)
		fatal("keygen");
	return 0;
}

int
main(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : "";

	log_init("agent-sandbox", LOG_LEVEL_INFO);
	if (strcmp(verb, "serve") == 0)
		return serve(argv + 1);
	if (strcmp(verb, "keygen") == 0)
		return argc == 2 ? keygen() : wrong("keygen takes no arguments");
	if (strcmp(verb, "doctor") == 0) {
		if (argc == 2 || (argc == 4 && strcmp(argv[2], "-f") == 0))
			return doctor_run(argc == 4 ? argv[3] : NULL);
		return wrong("doctor takes only -f FILE");
	}
	if (strcmp(verb, "--version") == 0 && argc == 2) {
		puts("agent-sandbox " VERSION);
		return 0;
	}
	if ((strcmp(verb, "--help") == 0 || strcmp(verb, "-h") == 0) && argc == 2) {
		fputs(usage, stdout);
		return 0;
	}
	return wrong(argc > 1 ? "there is no such verb" : "a verb is missing");
}
