/* The open file of the audit log: its end, its space, its rotation; see audit_file.h. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "common/ids.h"
#include "common/log.h"
#include "managerd/audit_file.h"

#define STEP (2 * AUDIT_RESERVE)

struct audit_file audit_file = {.fd = -1};

void
audit_hash(const char *p, size_t n, char out[AUDIT_HASH_TEXT])
{
	static EVP_MD_CTX *ctx;
	static EVP_MD *md;
	uint8_t digest[32];

	/* Once: it is most of the work when the line is short. */
	if (md == NULL &&
	    ((md = EVP_MD_fetch(NULL, "SHA256", NULL)) == NULL || (ctx = EVP_MD_CTX_new()) == NULL))
		fatalx("libcrypto has no SHA-256");
	if (EVP_DigestInit_ex(ctx, md, NULL) != 1 || EVP_DigestUpdate(ctx, p, n) != 1 ||
	    EVP_DigestFinal_ex(ctx, digest, NULL) != 1)
		fatalx("libcrypto cannot hash");
	hex_encode(digest, sizeof(digest), out);
}

/* The last whole line, and where it ends; begin == end: there is none in it. -1 with errno. */
static int
last_line(int fd, char *buf, size_t size, off_t *end, size_t *begin, size_t *len)
{
	struct stat st;
	ssize_t n, stop, start;
	off_t at;

	if (fstat(fd, &st) == -1)
		return -1;
	at = st.st_size > (off_t)size ? st.st_size - (off_t)size : 0;
	if ((n = pread(fd, buf, size, at)) == -1)
		return -1;
	for (stop = n; stop > 0 && buf[stop - 1] != '\n';)
		stop--;
	for (start = stop > 0 ? stop - 1 : 0; start > 0 && buf[start - 1] != '\n';)
		start--;
	errno = EBADMSG;
	if (at > 0 && start == 0)
		return -1; /* no line is so long */
	*end = at + stop;
	*begin = (size_t)start;
	*len = stop > 0 ? (size_t)(stop - 1 - start) : 0;
	return 0;
}

/* What the last line of this file says; *seq stays when there is no line in it. -1 with errno. */
static int
last_of(int fd, off_t *end, uint64_t *seq, char head[AUDIT_HASH_TEXT])
{
	char buf[AUDIT_LINE_MAX * 2 + 2];
	struct audit_end e;
	size_t begin, len;

	if (last_line(fd, buf, sizeof(buf), end, &begin, &len) == -1)
		return -1;
	if (len == 0)
		return 0;
	*seq = audit_line_end(buf + begin, len, &e) == 0 ? e.seq : 0;
	audit_hash(buf + begin, len, head);
	return 0;
}

int
audit_file_last(uint64_t first, uint64_t *seq, char head[AUDIT_HASH_TEXT])
{
	char name[AUDIT_CLOSED_MAX];
	int fd = open(audit_closed_name(name, first), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	off_t end = 0;
	int rc;

	if (fd == -1)
		return -1;
	rc = last_of(fd, &end, seq, head);
	close(fd);
	return end > 0 ? rc : -1;
}

/* Of the line that the file begins with; without one, of the next. */
static uint64_t
first_of(int fd)
{
	char buf[AUDIT_LINE_MAX + 1];
	struct audit_end e;
	const char *stop;
	ssize_t n = pread(fd, buf, sizeof(buf), 0);

	if (n <= 0 || (stop = memchr(buf, '\n', (size_t)n)) == NULL)
		return audit_file.seq + 1;
	return audit_line_end(buf, (size_t)(stop - buf), &e) == 0 ? e.seq : 0;
}

static int
fresh(const char *name, int flags)
{
	return open(name, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC | flags, 0600);
}

/* Where the newest closed file ended: what follows goes on there. */
static void
go_on_behind(void)
{
	uint64_t newest;

	if (audit_file_newest(&newest) == -1)
		return;
	if (audit_file_last(newest, &audit_file.seq, audit_file.head) == -1)
		fatal_config("the newest closed file of the audit log is damaged: put it back, or "
			     "move all audit files away");
}

size_t
audit_file_open(void)
{
	struct audit_file *f = &audit_file;
	struct stat st;

	if ((f->fd = fresh(AUDIT_FILE, 0)) == -1 || fstat(f->fd, &st) == -1)
		fatal_config("audit.log in the data directory: %s", strerror(errno));
	if (!S_ISREG(st.st_mode))
		fatal_config("audit.log in the data directory is not a file");
	f->seq = 0;
	memset(f->head, '0', sizeof(f->head) - 1);
	f->size = 0;
	if (last_of(f->fd, &f->size, &f->seq, f->head) == -1)
		fatal_config(errno == EBADMSG
				 ? "audit.log in the data directory is damaged; move it away"
				 : "audit.log in the data directory cannot be read");
	if (f->size == 0)
		go_on_behind();
	if (f->size < st.st_size && ftruncate(f->fd, f->size) == -1)
		fatal_config("audit.log in the data directory: %s", strerror(errno));
	f->first = f->size == 0 ? f->seq + 1 : first_of(f->fd);
	f->reserved = f->size;
	unlink(AUDIT_NEXT); /* of a rotation that was interrupted */
	return (size_t)(st.st_size - f->size);
}

int
audit_file_append(char *line, size_t len)
{
	struct audit_file *f = &audit_file;
	ssize_t n;

	line[len] = '\n';
	n = write(f->fd, line, len + 1);
	if (n != (ssize_t)len + 1) {
		if (n > 0 && ftruncate(f->fd, f->size) == -1)
			log_warn("the audit log cannot be cut");
		return -1;
	}
	audit_hash(line, len, f->head);
	f->size += n;
	f->seq++;
	return 0;
}

/* Where space cannot be reserved there must be as much free. */
static int
has_free(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize >= STEP;
}

static int
reserve(int fd, off_t size, off_t *reserved)
{
	if (*reserved - size >= AUDIT_RESERVE)
		return 1;
	if (fallocate(fd, FALLOC_FL_KEEP_SIZE, size, STEP) == 0) {
		*reserved = size + STEP;
		return 1;
	}
	return (errno == EOPNOTSUPP || errno == ENOSYS) && has_free(fd);
}

int
audit_file_reserve(void)
{
	return reserve(audit_file.fd, audit_file.size, &audit_file.reserved);
}

static int
folder_sync(void)
{
	int fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc;

	if (fd == -1)
		return -1;
	rc = fsync(fd);
	close(fd);
	return rc;
}

static int next = -1;
static off_t next_reserved;

static int
next_drop(void)
{
	int saved = errno;

	if (next != -1)
		close(next);
	next = -1;
	unlink(AUDIT_NEXT);
	errno = saved;
	return -1;
}

int
audit_file_next(void)
{
	next_reserved = 0;
	if ((next = fresh(AUDIT_NEXT, O_TRUNC)) == -1 || !reserve(next, 0, &next_reserved) ||
	    fsync(next) == -1)
		return next_drop();
	return 0;
}

/*
 * Whatever step is the last one: the next start finds either the file, or none and the closed one
 * that ends with the line that says so.
 */
int
audit_file_rotate(void)
{
	struct audit_file *f = &audit_file;
	char name[AUDIT_CLOSED_MAX];

	audit_closed_name(name, f->first);
	if (access(name, F_OK) == 0) {
		errno = EEXIST;
		return next_drop();
	}
	if (fsync(f->fd) == -1 || rename(AUDIT_FILE, name) == -1)
		return next_drop();
	if (rename(AUDIT_NEXT, AUDIT_FILE) == -1)
		fatal("the audit log cannot begin a new file");
	if (folder_sync() == -1)
		log_warn("fsync of the data directory");
	if (ftruncate(f->fd, f->size) == -1) /* gives back what was reserved */
		log_warn("%s", name);
	close(f->fd);
	f->fd = next;
	f->size = 0;
	f->reserved = next_reserved;
	f->first = f->seq + 1;
	next = -1;
	return 0;
}
