/*
 * The head of an HTTP/1.x request, parsed strictly: whatever two readers could take in two ways is
 * refused. Pure.
 */
#ifndef APID_HEAD_H
#define APID_HEAD_H

#include <stddef.h>
#include <stdint.h>

#define HEAD_MAX 16384
#define HEAD_FIELDS_MAX 64
#define TARGET_MAX 8192

/* Here a stray body is left to the route, which looks at the key first; elsewhere it is refused. */
#define STRAY_PREFIX "/v1/"
#define STRAY_TEXT "this method takes no body"

enum method {
	METHOD_GET,
	METHOD_HEAD,
	METHOD_POST,
	METHOD_PUT,
	METHOD_PATCH,
	METHOD_DELETE,
	METHOD_OPTIONS
};

/* A piece of the head's text; p is NULL when the field was not sent. */
struct slice {
	const char *p;
	size_t n;
};

/* The fields that we read; every other one is dropped. None may come twice but If-None-Match, whose
 * second one is dropped. */
enum head_field {
	FIELD_HOST,
	FIELD_AUTHORIZATION,
	FIELD_API_KEY,
	FIELD_CONTENT_TYPE,
	FIELD_ORIGIN,
	FIELD_FETCH_SITE,
	FIELD_REQUEST_ID,
	FIELD_IDEMPOTENCY_KEY,
	FIELD_RANGE,
	FIELD_IF_RANGE,
	FIELD_IF_NONE_MATCH,
	FIELDS
};

struct head {
	uint8_t method; /* enum method */
	uint8_t minor;  /* HTTP/1.minor */
	uint8_t chunked;
	uint8_t has_length;
	uint8_t expect; /* 100-continue */
	uint8_t close;  /* the connection ends with this request */
	uint8_t stray;  /* a body that this method does not take: to be refused, and never read */
	uint64_t length;
	struct slice target;
	struct slice field[FIELDS];
};

/*
 * p[0..n) is everything up to and with the empty line. Returns 0, or the HTTP status of the refusal
 * and why. The slices point into p.
 */
int head_parse(const char *p, size_t n, struct head *, const char **why);
/* Whether list (comma-separated, blanks around) holds the token, in any case. */
int head_has_token(struct slice list, const char *token);
/* Equal in any case of ASCII letters. */
int slice_is(struct slice, const char *text);

#endif
