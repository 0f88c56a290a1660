/* Decoding of queries, normalising of file paths, parsing of ranges (path.h). */
#include <string.h>

#include "apid/path.h"
#include "proto/job.h"

void
target_split(struct slice target, struct slice *path, struct slice *query)
{
	const char *q = memchr(target.p, '?', target.n);

	*path = target;
	*query = (struct slice){NULL, 0};
	if (q != NULL) {
		path->n = (size_t)(q - target.p);
		query->p = q + 1;
		query->n = target.n - path->n - 1;
	}
}

static int
hex(char ch)
{
	const char *digits = "0123456789abcdef", *d;

	if (ch >= 'A' && ch <= 'F')
		ch += 'a' - 'A';
	d = ch != '\0' ? strchr(digits, ch) : NULL;
	return d != NULL ? (int)(d - digits) : -1;
}

/* Returns 0 and the decoded bytes, or -1. out must hold n + 1 bytes. */
static int
decode(const char *p, size_t n, char *out, size_t *len)
{
	size_t i, o = 0;

	for (i = 0; i < n; i++) {
		if (p[i] == '+') {
			out[o++] = ' ';
		} else if (p[i] != '%') {
			out[o++] = p[i];
		} else {
			if (n - i < 3 || hex(p[i + 1]) < 0 || hex(p[i + 2]) < 0)
				return -1;
			out[o++] = (char)(hex(p[i + 1]) * 16 + hex(p[i + 2]));
			i += 2;
		}
	}
	out[o] = '\0';
	*len = o;
	return 0;
}

enum query_result
query_get(struct slice query, const char *name, char *value, size_t *n)
{
	const char *p = query.p, *end, *amp, *eq;
	char key[64];
	size_t key_len;
	enum query_result result = QUERY_NONE;

	*n = 0;
	value[0] = '\0';
	if (p == NULL)
		return QUERY_NONE;
	for (end = p + query.n; p < end; p = amp + 1) {
		if ((amp = memchr(p, '&', (size_t)(end - p))) == NULL)
			amp = end;
		if ((eq = memchr(p, '=', (size_t)(amp - p))) == NULL)
			eq = amp;
		if ((size_t)(eq - p) >= sizeof(key) ||
		    decode(p, (size_t)(eq - p), key, &key_len) == -1)
			continue;
		if (strlen(name) != key_len || memcmp(name, key, key_len) != 0)
			continue;
		if (result != QUERY_NONE)
			return QUERY_BAD;
		if (eq < amp)
			eq++;
		if ((size_t)(amp - eq) > TARGET_MAX ||
		    decode(eq, (size_t)(amp - eq), value, n) == -1)
			return QUERY_BAD;
		result = QUERY_GIVEN;
	}
	return result;
}

const char *
path_normalise(const char *path, size_t n, char *out)
{
	static const char base[] = "/workspace";
	const char *p = path, *end = path + n, *slash;
	size_t o = 0, len;

	if (n == 0)
		return "must not be empty";
	if (memchr(path, '\0', n) != NULL)
		return "must not contain a NUL byte";
	if (path[0] != '/') {
		o = sizeof(base) - 1;
		memcpy(out, base, o);
	}
	for (; p < end; p = slash + 1) {
		if ((slash = memchr(p, '/', (size_t)(end - p))) == NULL)
			slash = end;
		len = (size_t)(slash - p);
		if (len == 0 || (len == 1 && p[0] == '.'))
			continue;
		if (len == 2 && p[0] == '.' && p[1] == '.') {
			while (o > 0 && out[--o] != '/')
				;
			continue;
		}
		if (o + 1 + len > FILE_PATH_MAX)
			return "is too long";
		out[o++] = '/';
		memcpy(out + o, p, len);
		o += len;
	}
	if (o == 0)
		out[o++] = '/';
	out[o] = '\0';
	return NULL;
}

/* Digits at *p; what does not fit is as large as can be. Returns how many digits. */
static size_t
digits(const char **p, const char *end, int64_t *v)
{
	const char *start = *p;

	for (*v = 0; *p < end && **p >= '0' && **p <= '9'; (*p)++) {
		int d = **p - '0';

		*v = *v > (INT64_MAX - d) / 10 ? INT64_MAX : *v * 10 + d;
	}
	return (size_t)(*p - start);
}

int
range_parse(struct slice value, struct range *r)
{
	static const char unit[] = "bytes=";
	const char *p = value.p, *end;

	if (p == NULL || value.n <= sizeof(unit) - 1 ||
	    !slice_is((struct slice){p, sizeof(unit) - 1}, unit))
		return -1;
	end = p + value.n;
	p += sizeof(unit) - 1;
	memset(r, 0, sizeof(*r));
	if (*p == '-') {
		p++;
		r->kind = RANGE_SUFFIX;
		return digits(&p, end, &r->first) > 0 && p == end ? 0 : -1;
	}
	if (digits(&p, end, &r->first) == 0 || p == end || *p++ != '-')
		return -1;
	r->kind = RANGE_FROM;
	if (p == end)
		return 0;
	r->kind = RANGE_BETWEEN;
	if (digits(&p, end, &r->last) == 0 || p != end || r->last < r->first)
		return -1;
	return 0;
}
