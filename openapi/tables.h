/*
 * What the document is made of, as tables. Routes, statuses, fields of bodies and settings are not
 * among them: those are apid's own (apid/routes.h, apid/statuses.h, apid/fields.h) and the
 * configuration's (proto/config.h).
 */
#ifndef OPENAPI_TABLES_H
#define OPENAPI_TABLES_H

#include <jansson.h>
#include <stddef.h>

/* Who is sent a member; the numbers stand in the tables. */
enum property_for {
	FOR_ALL = 0,
	FOR_DETAIL = 1, /* with ?detail=true */
	FOR_ADMIN = 2,  /* keys with the scope admin; its text says so */
};

/* A member of an object that the server sends. */
struct property {
	const char *name;
	const char
	    *type; /* of JSON; "?" behind it: or null; "&NAME": that schema; "[&NAME": a list */
	const char *doc;
	const char *more;    /* what else its schema says: loose.h */
	const char *example; /* loose.h; NULL: of the schema that type names */
	enum property_for who;
};

/* One of the answers of an operation that is not an error. */
struct success {
	int status;
	const char *type;   /* of the content; NULL: there is none */
	const char *schema; /* name of a schema; NULL: bytes, or text */
	const char *doc;
	const char
	    *headers; /* names of headers, separated by blanks, beside those of every answer */
};

#define SUCCESSES_MAX 2

/* What is to be said of a route. */
struct operation {
	const char *at; /* "METHOD PATTERN", as in apid/routes.h */
	const char *id, *tag, *summary;
	const char *doc;
	const char *params;   /* names of parameters beside those of the path */
	const char *body;     /* name of the schema of a JSON body */
	const char *raw;      /* what the bytes of a raw body are */
	const char *raw_type; /* their type */
	const char *examples; /* of the body: loose.h, name: value */
	struct success ok[SUCCESSES_MAX];
	const char *errors; /* statuses beside those that any request may get */
	const char *links;  /* ids of operations that take the id that was answered */
};

extern const struct operation operations[];
extern const size_t noperations;
extern const char description[];

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* Parameters and headers by name. */
json_t *parameters_all(void);
json_t *headers_all(void);
/* Adds the schemas of bodies, and of answers, by name. */
void bodies_add(json_t *schemas);
void answers_add(json_t *schemas);
/* An example of the answer whose schema has this name. */
json_t *answer_example(const char *name);
/* Errors as answers, by code. */
json_t *errors_all(void);
json_t *paths_all(void);
/* {"$ref": "#/components/KIND/NAME"} */
json_t *reference(const char *kind, const char *name);

#endif
