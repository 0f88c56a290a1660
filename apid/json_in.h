/* JSON bodies: bounded, strict, checked against a table of fields. Pure. */
#ifndef APID_JSON_IN_H
#define APID_JSON_IN_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#define JSON_BODY_MAX (1024 * 1024)
#define JSON_DEPTH_MAX 32
#define FIELDS_MAX 16

/* Why a body is refused: an HTTP status (400, 413, 422) and a text for the client, maybe not UTF-8.
 */
struct refusal {
	int status;
	char text[256];
};

/* Returns 0 and the object (to be freed), or -1. */
int json_parse(const char *p, size_t n, json_t **out, struct refusal *);

enum field_type {
	FIELD_STRING,
	FIELD_INTEGER,
	FIELD_NUMBER,
	FIELD_BOOL,
	FIELD_STRINGS, /* an object of strings */
	FIELD_OBJECT,
	FIELD_ANY,
};

struct field {
	const char *name;
	enum field_type type;
	int64_t min; /* INTEGER: at least this, else 422 */
};

/*
 * Takes the object apart: value[i] is the (borrowed) member of field[i], or NULL when it is missing
 * or null. Another member or a wrong type is refused with 422. body may be NULL: no member.
 */
int json_fields(json_t *body, const struct field *, size_t n, json_t **value, struct refusal *);
/* The same, but other members are not looked at. */
int
json_some_fields(json_t *body, const struct field *, size_t n, json_t **value, struct refusal *);

/* An INTEGER member; fallback when v is NULL. */
int64_t json_int(json_t *v, int64_t fallback);
/* A NUMBER that must be > 0, in units of 1/scale, never 0; far too large ones are INT64_MAX. -1
 * when it is not > 0. */
int64_t json_scaled(json_t *v, double scale);
/* Says what is wrong. Returns -1. */
int
refuse(struct refusal *, int status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
