/*
 * One HTTP request, as the handlers see it: what was asked, and the ways to answer. A request is
 * answered exactly once, by req_reply(), req_error() or req_stream_*(); from then on, and when the
 * client leaves, its state is cleaned up and the handler must not touch it any more.
 */
#ifndef APID_REQ_H
#define APID_REQ_H

#include <bsd/sys/queue.h>
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "apid/head.h"
#include "apid/json_in.h"
#include "apid/peer.h"
#include "proto/apid_managerd.h"

struct answer;
struct conn;
struct evbuffer;
struct evhttp_request;
struct holder;
struct route;

#define REQUEST_ID_MAX 64
#define STREAM_HIGH (128 * 1024) /* bytes unsent: produce no more */
#define STREAM_LOW (32 * 1024)   /* and again below this */
#define HELD_FREE (64 * 1024)    /* bytes that each may keep in memory in any case */

/* Whatever is not a page of ours runs nothing, loads nothing and stands in no frame. */
#define NO_CONTENT_POLICY \
	"default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

struct req {
	struct conn *conn;
	struct evhttp_request *ev; /* NULL: no request is being served */
	const struct route *route;
	struct head head;
	struct peer_addr peer; /* the client, as far as it is known */
	struct slice path, query;
	struct slice id_text; /* the id in the path, as sent */
	uint64_t id;          /* 0: there is none, or it is malformed */
	char request_id[REQUEST_ID_MAX + 8];
	uint8_t key[32];
	uint8_t has_key;
	uint8_t detail;
	int status;         /* of the answer; 0: none was begun */
	int64_t began_us;   /* CLOCK_BOOTTIME */
	uint8_t authed;     /* managerd knows the key */
	uint8_t asked;      /* managerd was asked for something, and has counted it */
	uint8_t started;    /* the head of the answer is out */
	uint8_t leave_ends; /* a client that closes its side has gone; else it may still read */
	uint8_t goes_on;   /* what it began needs no client: one that has gone may lose its place */
	uint8_t slow_body; /* no minimum rate */
	uint8_t has_policy;    /* the handler has set Cache-Control and Content-Security-Policy */
	uint64_t held;         /* bytes kept for it until it is over, */
	struct holder *holder; /* by this key; NULL: none so far */
	struct refusal refusal;
	struct evbuffer *body; /* collected */
	TAILQ_ENTRY(req) turn; /* it is whole, and waits to be parsed, */
	uint8_t waits;         /* if so */
	json_t *json;
	uint64_t call; /* the one that waits for managerd on behalf of req_* itself */
	void (*then)(struct req *);
	void (*then_json)(struct req *);

	void *state; /* the handler's */
	void (*cleanup)(struct req *);
	void (*on_body)(struct req *, struct evbuffer *, size_t n); /* takes exactly n bytes */
	void (*on_body_end)(struct req *);
	void (*drained)(struct req *);    /* unsent bytes are below STREAM_LOW */
	void (*going_down)(struct req *); /* the server ends: finish a stream with an error line */
};

/* Called by the gate for each new request, and when it is over in whatever way. */
void req_begin(struct req *);
void req_over(struct req *);

/* Fills in who asks. */
void req_ask(struct req *, struct m_ask *);
/* A header of the answer. */
void req_header(struct req *, const char *name, const char *value);
/* Answers with JSON (taken from body, which may be NULL for 204). */
void req_reply(struct req *, int status, struct evbuffer *body);
/*
 * Answers with the one error shape. On a route that needs a key, a request whose key nobody has
 * looked at yet is first shown to managerd, so that a refusal tells nothing to strangers.
 */
void
req_error(struct req *, int status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void req_error_text(struct req *, int status, uint32_t retry_after, const char *text, size_t n);
void req_refuse(struct req *, const struct refusal *);
/* Passes on managerd's refusal (a REPLY): it has looked at the key. */
void req_pass_on(struct req *, const struct answer *);
void req_overloaded(struct req *);

/* length -1: not known. */
void req_stream_start(struct req *, int status, const char *type, int64_t length);
/* Takes all of data. */
void req_stream_write(struct req *, struct evbuffer *data);
size_t req_stream_unsent(const struct req *);
void req_stream_end(struct req *);
/* The answer cannot be completed: the connection is cut so that it looks broken. */
void req_stream_abort(struct req *);

/* Notes n more bytes that are kept until the request is over. -1: it may not keep more. */
int req_hold(struct req *, size_t n);
/* n of them are not kept any more. */
void req_release(struct req *, size_t n);

/* Whether the client sends a body. */
int req_has_body(const struct req *);
/* Asks managerd about the key, then calls then(). */
void req_authenticate(struct req *, void (*then)(struct req *));
/* Collects and parses a JSON body, then calls then() with r->json; it is NULL when there was no
 * body and optional. */
void req_json(struct req *, int optional, void (*then)(struct req *));
/* Gives back the body and what it was parsed to, which takes many times its room. */
void req_forget_body(struct req *);
/* Takes the body as it comes (on_body, on_body_end are set); more than max bytes is answered with
 * 413 and text. */
void req_body(struct req *, uint64_t max, const char *too_large);
void req_body_pause(struct req *, int on);
/* Bytes of the body that have come. */
uint64_t req_body_bytes(const struct req *);

/* A query parameter that is "true" or "false": 0, or -1 when the request was refused. */
int req_query_bool(struct req *, const char *name, uint8_t *out);

#endif
