/*
 * The key file: opened here, since managerd has no file outside of its own directory, and handed
 * over as a descriptor, at the start and at SIGHUP. What is in it is managerd's business alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent-sandboxd/parent.h"
#include "common/log.h"

/* A descriptor, or -1 and why. */
static int
keysfile_open(const char *path, char *why, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd == -1 && errno == ENOENT)
		snprintf(why, size,
		    "there is no %s yet; make a key with: agent-sandbox keygen --name NAME --file "
		    "%s",
		    path, path);
	else if (fd == -1 || fstat(fd, &st) == -1)
		snprintf(why, size, "%s: %s", path, strerror(errno));
	else if (!S_ISREG(st.st_mode))
		snprintf(why, size, "%s is not a file", path);
	else if (st.st_uid != 0 && st.st_uid != getuid())
		snprintf(why, size, "%s belongs to another user", path);
	else if ((st.st_mode & 077) != 0)
		snprintf(why, size, "%s can be read by others; make it private: chmod 600", path);
	else
		return fd;
	if (fd != -1)
		close(fd);
	return -1;
}

int
keys_send(struct parent *p, char *why, size_t size)
{
	const char *path = p->set.c.str[CFG_KEYS_FILE];
	const struct m_none none = {0};
	int fd;

	if (*path == '\0' || p->prog[PROG_MANAGERD].chan == NULL)
		return 0;
	if ((fd = keysfile_open(path, why, size)) == -1)
		return -1;
	send_P_KEYS(p->prog[PROG_MANAGERD].chan, 0, &none, NULL, 0, fd);
	return 0;
}

void
keys_reload(struct parent *p)
{
	char why[KEYS_WHY_MAX];

	if (keys_send(p, why, sizeof(why)) == 0)
		return;
	log_warnx("AGENT_SANDBOX_KEYS_FILE: %s; the keys from before stay", why);
	audit_note(p, NOTE_KEPT, 0, "keys", why);
}
