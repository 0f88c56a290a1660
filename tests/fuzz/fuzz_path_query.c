// link: apid/path.o apid/head.o
/* Targets, queries, paths of files, ranges: what comes out is what the header promises. */
#include <stdlib.h>
#include <string.h>

#include "apid/path.h"
#include "proto/job.h"

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

static void
check_path(const char *path, size_t n)
{
	char out[FILE_PATH_MAX + 1], again[FILE_PATH_MAX + 1];

	if (path_normalise(path, n, out) != NULL)
		return;
	n = strlen(out);
	if (n == 0 || out[0] != '/' || (n > 1 && out[n - 1] == '/') || n > FILE_PATH_MAX)
		abort();
	if (strstr(out, "//") != NULL || strstr(out, "/./") != NULL || strstr(out, "/../") != NULL)
		abort();
	if (n >= 3 && strcmp(out + n - 3, "/..") == 0)
		abort();
	if (path_normalise(out, n, again) != NULL || strcmp(out, again) != 0)
		abort();
}

static void
check_range(struct slice s)
{
	struct range r;

	if (range_parse(s, &r) == -1)
		return;
	if (r.first < 0 || r.last < 0 || (r.kind == RANGE_BETWEEN && r.last < r.first) ||
	    r.kind == RANGE_ALL)
		abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct slice target = {(const char *)data, n}, path, query;
	char value[TARGET_MAX + 1];
	size_t len;

	if (n > TARGET_MAX)
		return 0;
	target_split(target, &path, &query);
	if (path.n > n || (query.p != NULL && path.n + 1 + query.n != n))
		abort();
	if (query_get(query, "path", value, &len) == QUERY_GIVEN) {
		if (len > query.n || value[len] != '\0')
			abort();
		check_path(value, len);
	}
	if (query_get((struct slice){target.p, n}, "x", value, &len) != QUERY_BAD && len > n)
		abort();
	check_path(target.p, n);
	check_range(target);
	return 0;
}
