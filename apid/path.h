/* Queries and paths of files: decoding and normalising, by text alone. Pure. */
#ifndef APID_PATH_H
#define APID_PATH_H

#include "apid/head.h"

#define FILE_PATH_MAX 4095

/* Splits a request target at its first '?'. query.p is NULL when there is none. */
void target_split(struct slice target, struct slice *path, struct slice *query);

enum query_result { QUERY_NONE, QUERY_GIVEN, QUERY_BAD };
/*
 * The decoded value of a parameter ('+' and %20 are a space), with a NUL behind it; value holds
 * TARGET_MAX + 1 bytes. QUERY_BAD: malformed percent-encoding anywhere in it, or given twice.
 */
enum query_result query_get(struct slice query, const char *name, char *value, size_t *n);

/*
 * The absolute path of a file in a sandbox: relative ones belong to /workspace; "." and ".." are
 * resolved by text. out holds FILE_PATH_MAX + 1 bytes. Returns NULL, or why not.
 */
const char *path_normalise(const char *path, size_t n, char *out);

struct range {
	int kind; /* enum range_kind of proto/job.h */
	int64_t first;
	int64_t last;
};
/* A Range header. Anything but one well-formed range of bytes is to be ignored: returns -1. */
int range_parse(struct slice value, struct range *);

#endif
