/* Reads and writes files of the data directory. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/ids.h"
#include "common/log.h"
#include "managerd/store.h"

#define LOCK_TRIES 30
#define LOCK_PAUSE_NS 100000000

static int dirs[STORE_DIRS] = {-1, -1, -1};

static int
is_in_use(void)
{
	int fd = open("instance.json", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	return fd != -1 && close(fd) == 0;
}

static int
dir_open(const char *name)
{
	int fd;

	if ((fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)) != -1)
		return fd;
	if (errno != ENOENT)
		fatal_config("the data directory cannot be read: %s: %s", name, strerror(errno));
	/* Half of a backup must not look like a server that has nothing. */
	if (is_in_use())
		fatal_config("the data directory has no %s/ any more; put back what was in it, or "
			     "make an empty one to "
			     "give that up",
		    name);
	if (mkdir(name, 0700) == -1)
		fatal_config("the data directory cannot be written: %s", strerror(errno));
	if ((fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)) == -1)
		fatal_config("the data directory cannot be read: %s: %s", name, strerror(errno));
	return fd;
}

/* One that was killed a moment ago may still be on its way out. */
static void
lock(int fd)
{
	const struct timespec pause = {.tv_nsec = LOCK_PAUSE_NS};

	for (int i = 0; flock(fd, LOCK_EX | LOCK_NB) == -1; i++) {
		if (i == LOCK_TRIES)
			fatal_config("the data directory is in use by another server");
		nanosleep(&pause, NULL);
	}
}

void
store_open(void)
{
	if ((dirs[STORE_TOP] = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) == -1)
		fatal_config("the data directory cannot be read: %s", strerror(errno));
	lock(dirs[STORE_TOP]);
	dirs[STORE_SANDBOXES] = dir_open("sandboxes");
	dirs[STORE_SNAPSHOTS] = dir_open("snapshots");
}

uint64_t
store_inode(void)
{
	struct stat st;

	if (fstat(dirs[STORE_TOP], &st) == -1)
		fatal("stat of the data directory");
	return st.st_ino;
}

char *
store_name(char *out, const char *prefix, uint64_t id, const char *suffix)
{
	char text[ID_TEXT_MAX];

	snprintf(out, STORE_NAME_MAX, "%s%s", id_text(text, prefix, id), suffix);
	return out;
}

static int
write_all(int fd, const char *p, size_t len)
{
	ssize_t n;

	while (len > 0) {
		if ((n = write(fd, p, len)) == -1) {
			if (errno == EINTR)
				continue;
			return -1;
		}
		p += n;
		len -= n;
	}
	return 0;
}

static int
replace(enum store_dir dir, const char *name, const void *data, size_t len, int durable)
{
	char tmp[STORE_NAME_MAX + 8];
	int fd, saved;

	snprintf(tmp, sizeof(tmp), "%s.tmp", name);
	if ((fd = openat(dirs[dir], tmp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
		 0600)) == -1)
		return -1;
	if (write_all(fd, data, len) == -1 || (durable && fsync(fd) == -1))
		goto fail;
	close(fd);
	fd = -1;
	if (renameat(dirs[dir], tmp, dirs[dir], name) == -1)
		goto fail;
	if (durable && fsync(dirs[dir]) == -1)
		log_warn("fsync of a folder");
	return 0;
fail:
	saved = errno;
	if (fd != -1)
		close(fd);
	unlinkat(dirs[dir], tmp, 0);
	errno = saved;
	return -1;
}

int
store_write(enum store_dir dir, const char *name, const void *data, size_t len)
{
	return replace(dir, name, data, len, 1);
}

int
store_note(enum store_dir dir, const char *name, const void *data, size_t len)
{
	return replace(dir, name, data, len, 0);
}

int
store_record(enum store_dir dir, const char *prefix, uint64_t id, char *text)
{
	char name[STORE_NAME_MAX];
	int rc, saved;

	rc = store_write(dir, store_name(name, prefix, id, ".json"), text, strlen(text));
	saved = errno;
	if (rc == -1)
		log_warn("record %s", name);
	free(text);
	errno = saved;
	return rc;
}

int
store_remove(enum store_dir dir, const char *name)
{
	if (unlinkat(dirs[dir], name, 0) == -1)
		return errno == ENOENT ? 0 : -1;
	return fsync(dirs[dir]);
}

char *
store_read(enum store_dir dir, const char *name, size_t max, size_t *len)
{
	struct stat st;
	char *buf = NULL;
	ssize_t n = 0;
	int fd, saved;

	if ((fd = openat(dirs[dir], name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)) == -1)
		return NULL;
	if (fstat(fd, &st) == -1)
		goto fail;
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > max) {
		errno = EFBIG;
		goto fail;
	}
	if ((buf = malloc(st.st_size + 1)) == NULL)
		fatal("%s", name);
	for (*len = 0; *len < (size_t)st.st_size; *len += n)
		if ((n = read(fd, buf + *len, st.st_size - *len)) <= 0)
			break;
	if (n == -1)
		goto fail;
	buf[*len] = '\0';
	close(fd);
	return buf;
fail:
	saved = errno;
	free(buf);
	close(fd);
	errno = saved;
	return NULL;
}

int
store_each(enum store_dir dir, void (*fn)(const char *, void *), void *arg)
{
	struct dirent *d;
	DIR *list;
	int fd;

	if ((fd = openat(dirs[dir], ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) == -1)
		return -1;
	if ((list = fdopendir(fd)) == NULL) {
		close(fd);
		return -1;
	}
	while ((d = readdir(list)) != NULL)
		if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
			fn(d->d_name, arg);
	closedir(list);
	return 0;
}

int
snapfile_begin(uint64_t id)
{
	char name[STORE_NAME_MAX];

	return openat(dirs[STORE_SNAPSHOTS], store_name(name, "snap_", id, ".tmp"),
	    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

int
snapfile_commit(uint64_t id, int64_t size)
{
	char tmp[STORE_NAME_MAX], name[STORE_NAME_MAX];
	struct stat st;
	int fd, rc = -1, saved;

	store_name(tmp, "snap_", id, ".tmp");
	store_name(name, "snap_", id, ".tar.zst");
	if ((fd = openat(dirs[STORE_SNAPSHOTS], tmp, O_RDONLY | O_NOFOLLOW | O_CLOEXEC)) == -1)
		return -1;
	if (fstat(fd, &st) == -1 || fsync(fd) == -1)
		goto out;
	if (st.st_size != size) {
		errno = EIO;
		goto out;
	}
	rc = renameat(dirs[STORE_SNAPSHOTS], tmp, dirs[STORE_SNAPSHOTS], name);
	/* Before its record is, so that no crash leaves one without the other. */
	if (rc == 0 && fsync(dirs[STORE_SNAPSHOTS]) == -1)
		rc = -1;
out:
	saved = errno;
	close(fd);
	errno = saved;
	return rc;
}

void
snapfile_abandon(uint64_t id)
{
	char name[STORE_NAME_MAX];
	int fd;

	/* Who has it open still is to hold nothing of the disk by it. */
	store_name(name, "snap_", id, ".tmp");
	fd = openat(
	    dirs[STORE_SNAPSHOTS], name, O_WRONLY | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd != -1)
		close(fd);
	if (store_remove(STORE_SNAPSHOTS, name) == -1)
		log_warn("%s", name);
}

int
snapfile_open(uint64_t id)
{
	char name[STORE_NAME_MAX];

	return openat(dirs[STORE_SNAPSHOTS], store_name(name, "snap_", id, ".tar.zst"),
	    O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
}

int
snapfile_remove(uint64_t id)
{
	char name[STORE_NAME_MAX];

	return store_remove(STORE_SNAPSHOTS, store_name(name, "snap_", id, ".tar.zst"));
}

int
snapfile_exists(uint64_t id)
{
	char name[STORE_NAME_MAX];
	struct stat st;

	return fstatat(dirs[STORE_SNAPSHOTS], store_name(name, "snap_", id, ".tar.zst"), &st,
		   AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISREG(st.st_mode);
}
