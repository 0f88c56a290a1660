/* The key file on disk: opened under a lock, read, and changed as a whole or not at all. What
 * cannot be done is said in one line, and the program ends. */
#ifndef AGENT_SANDBOX_KEYRING_H
#define AGENT_SANDBOX_KEYRING_H

#include <sys/stat.h>

#include "agent-sandbox/options.h"
#include "common/keys_file.h"

enum keyring_for { KEYRING_READ, KEYRING_CHANGE, KEYRING_MAKE /* it may not be there yet */ };

struct keyring {
	const char *path; /* as it was given */
	int fd;
	int made; /* it was not there before */
	struct stat st;
	char *text; /* all of it, with a NUL */
	size_t n;
	struct keys_file keys;
};

/* file NULL: AGENT_SANDBOX_KEYS_FILE; else wrong use of the verb. To be closed. */
void keyring_open(struct keyring *, const struct usage *, const char *file, enum keyring_for);
void keyring_close(struct keyring *);
/* The key of this name, or NULL. */
const struct keys_key *keyring_find(const struct keyring *, const char *name);
/* Adds a line (without its end), which is checked first beside the others. */
void keyring_append(struct keyring *, const char *line);
/* Takes the last keyring_append() back. */
void keyring_undo(struct keyring *);
/* Puts another text in place of all; mode, owner and links stay. */
void keyring_replace(struct keyring *, const char *text, size_t n);

/* On standard error: what is to be done so that the server knows. */
void keyring_hint(const struct keyring *, const char *what, const char *name);

#endif
