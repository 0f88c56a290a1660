/* Parses file requests and turns errno into what a client is told. */
#include <errno.h>
#include <string.h>

#include "sandbox-init/channel.h"
#include "sandbox-init/request.h"
#include "sandbox-init/resolve.h"

int
request_parse(const uint8_t *data, size_t len, struct request *r)
{
	memset(&r->f, 0, sizeof(r->f));
	r->path[0] = '\0';
	if (len < sizeof(r->f))
		return -1;
	memcpy(&r->f, data, sizeof(r->f));
	if (r->f.path_len != len - sizeof(r->f) || r->f.path_len < 1 ||
	    r->f.path_len > PATH_TAIL_MAX)
		return -1;
	memcpy(r->path, data + sizeof(r->f), r->f.path_len);
	r->path[r->f.path_len] = '\0';
	return r->path[0] == '/' && strlen(r->path) == r->f.path_len ? 0 : -1;
}

int
request_resolve_flags(const struct request *r)
{
	return (r->f.flags & G_FLAG_WORKSPACE ? RESOLVE_WORKSPACE : 0) |
	       (r->f.flags & G_FLAG_PARENTS ? RESOLVE_PARENTS : 0);
}

static const struct {
	int error;
	uint32_t status;
	const char *reason;
} reasons[] = {
    {ENOENT, 404, "no such file or directory"},
    {ENOTDIR, 400, "not a directory"},
    {EISDIR, 400, "is a directory"},
    {EACCES, 400, "not accessible to the sandbox user"},
    {EPERM, 400, "not permitted to the sandbox user"},
    {EXDEV, 400, "leads out of /workspace"},
    {ELOOP, 400, "too many links, or a link that may not be followed"},
    {ENAMETOOLONG, 400, "name or path too long"},
    {ENOTEMPTY, 400, "is a directory that is not empty"},
    {EROFS, 400, "is on a read-only file system"},
    {EWOULDBLOCK, 409, "another process holds it"},
    {ETXTBSY, 409, "another process runs it"},
    {EINVAL, 400, "not a valid name"},
    {ENXIO, 400, "neither a regular file nor a directory"},
    {ENOSPC, 507, "no space left"},
    {EDQUOT, 507, "no space left"},
    {EFBIG, 507, "file too large for the file system"},
    {EMLINK, 507, "too many links"},
    {EMFILE, 429, "sandbox reached its limit of open files"},
    {ENFILE, 429, "sandbox reached its limit of open files"},
    {ENOMEM, 429, "sandbox has no memory left for this"},
};

static size_t
reason_of(int error)
{
	size_t i;

	for (i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (reasons[i].error == error)
			break;
	return i;
}

uint32_t
request_status(int error)
{
	size_t i = reason_of(error);

	return i < sizeof(reasons) / sizeof(reasons[0]) ? reasons[i].status : 500;
}

const char *
request_reason(int error)
{
	size_t i = reason_of(error);

	return i < sizeof(reasons) / sizeof(reasons[0]) ? reasons[i].reason : strerror(error);
}

void
request_fail(struct channel *ch, const char *path, int error)
{
	channel_end(ch, request_status(error), 0, "%.3000s: %s", path, request_reason(error));
}

uint32_t
request_range(const struct g_file *f, int64_t size, int64_t *first, int64_t *length)
{
	int64_t from = 0, to = size; /* [from, to) */

	switch (f->range) {
	case RANGE_ALL:
		break;
	case RANGE_SUFFIX:
		if (f->first <= 0 || size == 0)
			return 416;
		from = f->first < size ? size - f->first : 0;
		break;
	default:
		if (f->first < 0 || f->first >= size)
			return 416;
		from = f->first;
		if (f->range == RANGE_BETWEEN && f->last < size - 1)
			to = f->last + 1;
		if (to <= from)
			return 416;
	}
	if (f->max >= 0 && to - from > f->max)
		return 413;
	*first = from;
	*length = to - from;
	return 200;
}
