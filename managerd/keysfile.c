/* Reads the key file from its descriptor. */
#include <bsd/string.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/log.h"
#include "managerd/audit.h"
#include "managerd/keys.h"
#include "managerd/keysfile.h"
#include "managerd/manager.h"
#include "managerd/revoke.h"

static int known;

/* All of it, or NULL and why. */
static char *
slurp(int fd, size_t *len, char *why, size_t size)
{
	char *text = NULL;
	ssize_t n = 1;
	struct stat st;

	if (fstat(fd, &st) == -1 || !S_ISREG(st.st_mode))
		fatalx("the parent sent a key file that is none");
	if ((text = malloc(KEYS_FILE_MAX + 1)) == NULL)
		fatal("key file");
	for (*len = 0; n > 0 && *len <= KEYS_FILE_MAX; *len += (size_t)(n > 0 ? n : 0))
		n = pread(fd, text + *len, KEYS_FILE_MAX + 1 - *len, (off_t)*len);
	if (n >= 0)
		return text;
	snprintf(why, size, "%s", strerror(errno));
	free(text);
	return NULL;
}

void
keysfile_arrived(int fd)
{
	char why[512];
	size_t len, before = keys_count();
	char *text = slurp(fd, &len, why, sizeof(why));
	int failed = text == NULL || keys_replace(text, len, why, sizeof(why)) == -1;

	close(fd);
	free(text);
	if (failed && !known)
		fatal_config("AGENT_SANDBOX_KEYS_FILE: %s", why);
	if (failed) {
		log_warnx("AGENT_SANDBOX_KEYS_FILE: %s; the keys from before stay", why);
		audit_reload("keys", why);
		return;
	}
	if (keys_count() == 0)
		log_warnx("there is no key: nobody may ask for anything");
	if (known && keys_count() > 0)
		log_info("the key file was read again: %zu keys, before %zu", keys_count(), before);
	if (known)
		audit_reload("keys", NULL);
	known = 1;
	revoke_all();
}

int
keysfile_known(void)
{
	return known || *CFG_TEXT(KEYS_FILE) == '\0';
}
