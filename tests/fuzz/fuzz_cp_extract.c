// link: agent-sandbox/cp/extract.o agent-sandbox/cp/link.o agent-sandbox/cp/tree.o agent-sandbox/cp/progress.o
// link: agent-sandbox/show.o clients/api/text.o -larchive -ljansson
/*
 * Hostile archives to disk: nothing may appear, change or vanish but below the one name that was
 * asked for, and all of that can be removed again.
 */
#include <archive.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "agent-sandbox/cp/cp.h"

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

struct cp_options cp_options = {0, 1, 1};
volatile sig_atomic_t cp_caught;

static char top[] = "/tmp/fuzz-extract.XXXXXX";
static int dir = -1;

static void
clear(void)
{
	unlinkat(dir, "victim", 0);
	close(dir);
	rmdir(top);
}

/* A folder of our own with one file in it. */
static void
prepare(void)
{
	int fd;

	if (dir != -1)
		return;
	if (mkdtemp(top) == NULL || (dir = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) == -1 ||
	    (fd = openat(dir, "victim", O_WRONLY | O_CREAT, 0600)) == -1 ||
	    write(fd, "victim", 6) != 6)
		abort();
	close(fd);
	atexit(clear);
}

/* The file is as it was, and stands there alone. */
static void
check(void)
{
	DIR *d = fdopendir(openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	struct dirent *e;
	struct stat st;
	int n = 0;

	if (d == NULL || fstatat(dir, "victim", &st, AT_SYMLINK_NOFOLLOW) == -1 ||
	    !S_ISREG(st.st_mode) || st.st_size != 6 || st.st_nlink != 1 ||
	    (st.st_mode & 07777) != 0600)
		abort();
	while ((e = readdir(d)) != NULL)
		n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
	closedir(d);
	if (n != 1)
		abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct archive *a = archive_read_new();
	struct copied copied = {0};
	char why[EXTRACT_WHY] = "";
	int r;

	prepare();
	if (a == NULL || archive_read_support_format_tar(a) != ARCHIVE_OK)
		abort();
	if (archive_read_open_memory(a, data, size) == ARCHIVE_OK) {
		r = extract_tree(a, dir, "made", &copied, why);
		if (r != 0 && *why == '\0')
			abort();
		if (tree_remove(dir, "made") == -1)
			abort();
	}
	archive_read_free(a);
	check();
	return 0;
}
