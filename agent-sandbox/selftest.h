/* What the files of "agent-sandbox selftest" offer each other. */
#ifndef AGENT_SANDBOX_SELFTEST_H
#define AGENT_SANDBOX_SELFTEST_H

#include <jansson.h>

#include "agent-sandbox/options.h"

/* From the command line. */
struct selftest_options {
	const char *target, *rebind, *image;
	struct texts only, modes, near;
	int offline;
};
extern struct selftest_options selftest;

/* selftest_report.c: what was found, one line each, or collected for --json. */
enum selftest_result { SELFTEST_OK, SELFTEST_BROKEN, SELFTEST_SKIP, SELFTEST_REFUSED };
/* From here on, of this mode. */
void report_mode(const char *mode);
/* evidence may be anything. */
void report(enum selftest_result, const char *name, const char *evidence);
void reportf(enum selftest_result, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Whether --only lets this check run. */
int report_wants(const char *name);
/* Whether there is such a check, inside or outside. */
int report_knows(const char *name);
/* What the program inside printed: every check of the mode must have said one line. */
void report_lines(unsigned mode, const char *output);
/* Prints the end. Returns the exit status. */
int report_end(void);

/* selftest_host.c: addresses of this machine, if the server runs on it. Call host_find() before
 * client_server(). */
void host_find(void);
/* Arguments for the program inside, each "-s ADDRESS" or "-n ADDRESS:PORT", appended to command. */
void host_arguments(json_t *command, const char *url);

#endif
