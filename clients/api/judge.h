/* What an answer, or the lack of one, means to the user. Pure, but for the words of libcurl. */
#ifndef CLIENTS_API_JUDGE_H
#define CLIENTS_API_JUDGE_H

#include "clients/api/api.h"

/* What came before the body. Strings may be NULL. */
struct judge_head {
	const char *where; /* URL of the server */
	const char *type;  /* Content-Type */
	const char *location;
	int status;
	int retry_after; /* seconds, 0 if not said */
	int has_key;     /* one was sent */
};

/* Which answer is expected of a status from 200 to 299. */
enum judge_want { WANT_JSON, WANT_EVENTS, WANT_BYTES };

/* Fills in e, with its text made safe. Returns -1. */
int judge_say(struct api_error *e, enum api_kind, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* 0 if this is the head of the answer wanted; else -1, and e unless the body must be heard first
 * (e->kind is API_OK then: the status says no, judge_refusal() knows why). */
int judge_answer(const struct judge_head *, enum judge_want, struct api_error *e);
/* An answer that says no, with as much of its body as was kept. Returns -1. */
int judge_refusal(const struct judge_head *, const char *body, size_t n, struct api_error *e);
/* No whole answer came. said: libcurl's error buffer. begun: the request was on its way. verified:
 * what became of the server's certificate, CURLINFO_SSL_VERIFYRESULT. Returns -1. */
int judge_curl(
    CURLcode, const char *where, const char *said, int begun, long verified, struct api_error *e);

#endif
