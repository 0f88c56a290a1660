/* Closed files of the audit log: which there are, where a line is, removal; see audit_file.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/log.h"
#include "managerd/audit_file.h"

#define PIECE 65536

/* The closed file that is the last one before this seq; *count of all. -1: none. */
static int
closed_before(uint64_t before, uint64_t *found, uint64_t *oldest, size_t *count)
{
	const struct dirent *d;
	uint64_t first;
	int any = -1;
	DIR *dir = opendir(".");

	*count = 0;
	*oldest = UINT64_MAX;
	if (dir == NULL)
		fatal("the data directory cannot be read");
	while ((d = readdir(dir)) != NULL) {
		if (audit_closed_parse(d->d_name, &first) == -1)
			continue;
		++*count;
		if (first < *oldest)
			*oldest = first;
		if (first < before && (any == -1 || first > *found)) {
			*found = first;
			any = 0;
		}
	}
	closedir(dir);
	return any;
}

int
audit_file_newest(uint64_t *first)
{
	uint64_t oldest;
	size_t count;

	return closed_before(UINT64_MAX, first, &oldest, &count);
}

int
audit_file_oldest(uint64_t *first, size_t *count)
{
	uint64_t newest;

	return closed_before(UINT64_MAX, &newest, first, count);
}

int
audit_file_remove(uint64_t first)
{
	char name[AUDIT_CLOSED_MAX];

	return unlink(audit_closed_name(name, first));
}

/* The line behind the one with this seq says its hash. Looked for from the end, where it is. */
static int
find_in(int fd, uint64_t seq, char head[AUDIT_HASH_TEXT])
{
	char buf[PIECE + AUDIT_LINE_MAX], want[64];
	size_t n =
	    (size_t)snprintf(want, sizeof(want), ",\"seq\":%" PRIu64 ",\"prev\":\"", seq + 1);
	struct stat st;
	const char *p;
	ssize_t got;
	off_t at;

	if (fstat(fd, &st) == -1)
		return -1;
	at = st.st_size;
	do {
		at = at > PIECE ? at - PIECE : 0;
		if ((got = pread(fd, buf, sizeof(buf), at)) <= 0)
			return -1;
		p = memmem(buf, (size_t)got, want, n);
		if (p != NULL && (size_t)(buf + got - p) >= n + AUDIT_HASH_TEXT) {
			memcpy(head, p + n, AUDIT_HASH_TEXT - 1);
			head[AUDIT_HASH_TEXT - 1] = '\0';
			return 0;
		}
	} while (at > 0);
	return -1;
}

int
audit_file_find(uint64_t seq, char head[AUDIT_HASH_TEXT])
{
	const struct audit_file *f = &audit_file;
	char name[AUDIT_CLOSED_MAX];
	uint64_t first = 0, oldest;
	size_t count;
	int fd, rc;

	if (seq >= f->seq) {
		memcpy(head, f->head, AUDIT_HASH_TEXT);
		return seq == f->seq ? 0 : -1;
	}
	if (seq + 1 >= f->first)
		return find_in(f->fd, seq, head);
	if (closed_before(seq + 2, &first, &oldest, &count) == -1 ||
	    (fd = open(audit_closed_name(name, first), O_RDONLY | O_NOFOLLOW | O_CLOEXEC)) == -1)
		return -1;
	rc = find_in(fd, seq, head);
	close(fd);
	return rc;
}
