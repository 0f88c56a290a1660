/* Sandboxes and snapshots as JSON objects, ids and cursors as text, and what create and fork share.
 */
#ifndef APID_OBJECT_H
#define APID_OBJECT_H

#include "apid/managerd.h"
#include "apid/req.h"

struct evbuffer;

void object_sandbox(struct evbuffer *, const struct m_sandbox *, const char *tail, size_t n);
/* Its egress allowlist as an array; an empty one if it has none. */
void object_egress(struct evbuffer *, const struct m_sandbox *, const char *tail, size_t n);
void object_snapshot(struct evbuffer *, const struct m_snapshot *, const char *tail, size_t n);
/* Answers of managerd that are one object: 200, or 201, or its refusal. arg is the request. */
void object_answer_ok(void *arg, const struct answer *);
void object_answer_created(void *arg, const struct answer *);
/* 204, or the refusal. */
void object_answer_none(void *arg, const struct answer *);

/* The id in the path was malformed: 404, as for an unknown one. */
void object_unknown(struct req *);
/* The fields of the body, behind a good id in the path. -1: the request was answered. */
int object_fields(struct req *, const struct field *, size_t n, json_t **value);
/*
 * Opens the call whose id is r->call, and says in ask who asks: to be sent at once. -1: the request
 * was answered.
 */
int object_call(struct req *, enum call_kind, call_cb, struct m_ask *ask);
/* The same for the message that is only the id in the path. */
int object_ask_id(struct req *, enum call_kind, call_cb, struct m_id *);
/* What travels beside a CREATE, as records; returns the end for managerd, or -1 when it does not
 * fit, which a bug would be. */
int object_create_data(json_t *env, json_t *labels, json_t *egress);
/* Idempotency-Key: 0, or -1 when the request was refused. */
int object_idempotency(struct req *, struct m_create *);

/*
 * A list, page after page. name is the member's name; send asks for a page that begins behind
 * after_us, after_id.
 */
struct list {
	struct req *r;
	const char *name;
	void (*send)(struct list *, uint32_t max);
	enum call_kind kind;
	uint64_t call;
	struct evbuffer *out;
	struct m_list ask;
	char label[LABEL_NAME_MAX + LABEL_VALUE_MAX + 2];
	size_t label_len;
	int64_t left;   /* items the client still wants; -1: all */
	uint32_t items; /* sent so far */
	uint8_t paged;  /* ?limit= was given */
	int64_t last_us;
	uint64_t last_id;
};
/* Reads ?limit= and ?cursor=, then answers. NULL when the request was refused or is overloaded. */
struct list *
list_new(struct req *, const char *name, enum call_kind, void (*send)(struct list *, uint32_t));
void list_next(struct list *);

#endif
