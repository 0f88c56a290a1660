/* The key file on disk (keyring.h). */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/file.h>

#include "agent-sandbox/client.h"
#include "agent-sandbox/keyring.h"
#include "agent-sandbox/show.h"
#include "common/log.h"

#define WHY_MAX 256

/* A file that was made only now goes again. */
static void fail(const struct keyring *, int status, const char *why) __attribute__((noreturn));

static void
fail(const struct keyring *k, int status, const char *why)
{
	if (k->made)
		unlink(k->path);
	client_failx(status, "%s: %s", k->path, why);
}

static int
open_it(struct keyring *k, enum keyring_for what)
{
	int flags = O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (what == KEYRING_READ ? O_RDONLY : O_RDWR);
	int fd;

	if (what == KEYRING_MAKE && (fd = open(k->path, flags | O_CREAT | O_EXCL, 0600)) != -1) {
		k->made = 1;
		return fd;
	}
	return open(k->path, flags);
}

/* Who replaces the file does so under the lock of the one before. */
static int
is_still_there(const struct keyring *k)
{
	struct stat now;

	return stat(k->path, &now) == 0 && now.st_dev == k->st.st_dev && now.st_ino == k->st.st_ino;
}

static void
check(const struct keyring *k)
{
	char why[WHY_MAX];

	if (!S_ISREG(k->st.st_mode))
		fail(k, EXIT_USE, "not a file");
	if (k->st.st_size > (off_t)KEYS_FILE_MAX)
		fail(k, EXIT_USE, "too large for a key file");
	if ((k->st.st_mode & 077) == 0)
		return;
	snprintf(why, sizeof(why),
	    "its group or others have access to it (mode %04o), so no server would take it: chmod "
	    "600 it",
	    (unsigned)k->st.st_mode & 07777);
	fail(k, EXIT_USE, why);
}

static void
read_all(struct keyring *k)
{
	ssize_t n = 1;

	k->text = calloc(1, (size_t)k->st.st_size + 1);
	if (k->text == NULL)
		fatal("%s", k->path);
	for (k->n = 0; k->n < (size_t)k->st.st_size && n > 0; k->n += (size_t)n)
		if ((n = pread(k->fd, k->text + k->n, (size_t)k->st.st_size - k->n, (off_t)k->n)) ==
		    -1)
			fail(k, EXIT_REFUSED, strerror(errno));
	if (memchr(k->text, '\0', k->n) != NULL)
		fail(k, EXIT_USE, "is no text file");
}

void
keyring_open(struct keyring *k, const struct usage *u, const char *file, enum keyring_for what)
{
	char why[WHY_MAX];
	const char *set = getenv("AGENT_SANDBOX_KEYS_FILE");

	memset(k, 0, sizeof(*k));
	k->path = file != NULL ? file : set;
	if (k->path == NULL || *k->path == '\0')
		options_wrong(u, "which key file? --file names it, or AGENT_SANDBOX_KEYS_FILE");
	for (;;) {
		if ((k->fd = open_it(k, what)) == -1)
			fail(k, errno == ENOENT ? EXIT_NOT_FOUND : EXIT_REFUSED, strerror(errno));
		if (flock(k->fd, what == KEYRING_READ ? LOCK_SH : LOCK_EX) == -1 ||
		    fstat(k->fd, &k->st) == -1)
			fail(k, EXIT_REFUSED, strerror(errno));
		if (is_still_there(k))
			break;
		close(k->fd);
		k->made = 0;
	}
	check(k);
	read_all(k);
	if (keys_file_parse(k->text, k->n, &k->keys, why, sizeof(why)) == -1)
		fail(k, EXIT_USE, why);
}

void
keyring_close(struct keyring *k)
{
	close(k->fd);
	free(k->text);
	keys_file_free(&k->keys);
}

const struct keys_key *
keyring_find(const struct keyring *k, const char *name)
{
	for (size_t i = 0; i < k->keys.count; i++)
		if (strcmp(k->keys.keys[i].name, name) == 0)
			return &k->keys.keys[i];
	return NULL;
}

static int
write_all(int fd, const char *p, size_t n, off_t at)
{
	ssize_t done;

	for (; n > 0; p += done, at += done, n -= (size_t)done)
		if ((done = pwrite(fd, p, n, at)) == -1)
			return -1;
	return 0;
}

/* The whole text as it will be, checked. To be freed. */
static char *
with_line(const struct keyring *k, const char *line)
{
	const char *before = k->n > 0 && k->text[k->n - 1] != '\n' ? "\n" : "";
	struct keys_file keys;
	char why[WHY_MAX], *text;
	int n = asprintf(&text, "%s%s%s\n", k->text, before, line);

	if (n == -1)
		fatal("%s", k->path);
	if (keys_file_parse(text, (size_t)n, &keys, why, sizeof(why)) == -1)
		fail(k, EXIT_USE, why);
	keys_file_free(&keys);
	return text;
}

void
keyring_append(struct keyring *k, const char *line)
{
	char *text = with_line(k, line);
	int error;

	if (write_all(k->fd, text + k->n, strlen(text) - k->n, (off_t)k->n) == -1 ||
	    fsync(k->fd) == -1) {
		error = errno;
		keyring_undo(k);
		fail(k, EXIT_REFUSED, strerror(error));
	}
	free(text);
}

void
keyring_undo(struct keyring *k)
{
	if (k->made)
		unlink(k->path);
	else if (ftruncate(k->fd, (off_t)k->n) == -1 || fsync(k->fd) == -1)
		client_failx(
		    EXIT_REFUSED, "%s: its last line may be torn: %s", k->path, strerror(errno));
	k->made = 0; /* what has the name from now on is another's */
}

/* The folder of a file, after links were followed. */
static int
sync_folder(char *path)
{
	int fd, r;

	*strrchr(path, '/') = '\0';
	if ((fd = open(*path != '\0' ? path : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) == -1)
		return -1;
	r = fsync(fd);
	close(fd);
	return r;
}

void
keyring_replace(struct keyring *k, const char *text, size_t n)
{
	char real[PATH_MAX], temp[PATH_MAX + 16];
	int fd, error;

	if (realpath(k->path, real) == NULL)
		fail(k, EXIT_REFUSED, strerror(errno));
	snprintf(temp, sizeof(temp), "%s.XXXXXX", real);
	if ((fd = mkostemp(temp, O_CLOEXEC)) == -1)
		fail(k, EXIT_REFUSED, strerror(errno));
	/* chown(2) takes away what a mode may have more than the rights of the owner. */
	if (fchown(fd, k->st.st_uid, k->st.st_gid) == -1 ||
	    fchmod(fd, k->st.st_mode & 07777) == -1 || write_all(fd, text, n, 0) == -1 ||
	    fsync(fd) == -1 || close(fd) == -1 || rename(temp, real) == -1) {
		error = errno;
		unlink(temp);
		fail(k, EXIT_REFUSED, strerror(error));
	}
	if (sync_folder(real) == -1)
		fail(k, EXIT_REFUSED, strerror(errno));
}

void
keyring_hint(const struct keyring *k, const char *what, const char *name)
{
	char path[PATH_MAX];

	fprintf(stderr,
	    "agent-sandbox: %s is %s %s; a server that runs takes it up at SIGHUP: pkill -HUP -x "
	    "agent-sandboxd\n",
	    name, what, show_line(k->path, path, sizeof(path)));
}
