/* The worker that unpacks a tar: straight into an empty folder (a snapshot), or aside first and
 * merged when whole. */
#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-init/request.h"
#include "sandbox-init/sweep.h"
#include "sandbox-init/unpack.h"
#include "sandbox-init/worker.h"

#define STEP 65536

static char data[STEP];

static la_ssize_t
on_read(struct archive *a, void *arg, const void **buf)
{
	ssize_t n;

	(void)arg;
	*buf = data;
	while ((n = read(WORKER_DATA, data, sizeof(data))) < 0 && errno == EINTR)
		;
	if (n < 0)
		archive_set_error(a, errno, "gone");
	return n;
}

static int
unpack_all(struct unpack *u)
{
	struct archive *a = archive_read_new();
	struct archive_entry *e;
	int r;

	if (a == NULL || archive_read_support_format_tar(a) != ARCHIVE_OK)
		return unpack_fail(u, 500, "no archive can be read");
	if (archive_read_open(a, NULL, NULL, on_read, NULL) != ARCHIVE_OK)
		return unpack_fail(u, 400, "not a tar archive; compressed ones are not taken");
	while ((r = archive_read_next_header(a, &e)) == ARCHIVE_OK || r == ARCHIVE_WARN)
		if (unpack_entry(u, a, e) < 0)
			return -1;
	u->name[0] = '\0';
	if (r != ARCHIVE_EOF)
		return unpack_fail(u, 400,
		    archive_file_count(a) == 0 ? "not a tar archive; compressed ones are not taken"
					       : "the archive is damaged or incomplete");
	return 0;
}

/* What follows the end of the archive is only padding; then PID 1 says whether the client sent all
 * of it. */
static int
came_whole(void)
{
	char byte;

	while (read(WORKER_DATA, data, sizeof(data)) > 0)
		;
	return recv(WORKER_CONTROL, &byte, 1, 0) == 1;
}

/*
 * A new volume may hold what the image brings in its /workspace: the snapshot takes its place. What
 * cannot be removed is left, and then the folder is not empty.
 */
static int
make_empty(int folder)
{
	int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), left = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (d == NULL)
		return 0;
	while ((e = readdir(d)) != NULL)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			sweep(folder, e->d_name);
	rewinddir(d);
	while (readdir(d) != NULL)
		left++;
	closedir(d);
	return left <= 2;
}

static void
run_exact(struct unpack *u)
{
	if (!make_empty(WORKER_FOLDER))
		worker_done(409, "", "the folder to restore into cannot be emptied");
	u->base = WORKER_FOLDER;
	if (unpack_all(u) == 0 && came_whole())
		unpack_folders(u, WORKER_FOLDER);
	worker_done(u->status, u->name, u->reason);
}

void
import_run(const struct worker_job *job)
{
	static struct unpack u;

	u.status = 200;
	u.exact = job->exact;
	u.depth = job->depth;
	u.cached_fd = -1;
	if (job->exact)
		run_exact(&u);
	if (mkdirat(WORKER_FOLDER, job->staging, 0700) < 0)
		worker_done(request_status(errno), "", request_reason(errno));
	u.base = openat(WORKER_FOLDER, job->staging, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (u.base < 0)
		worker_done(request_status(errno), "", request_reason(errno));
	if (unpack_all(&u) == 0 && came_whole() && merge_into(&u, u.base, WORKER_FOLDER) == 0)
		unpack_folders(&u, WORKER_FOLDER);
	sweep(WORKER_FOLDER, job->staging);
	worker_done(u.status, u.name, u.reason);
}
