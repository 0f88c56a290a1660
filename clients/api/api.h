/*
 * The REST API for programs in C: where the server is and with which key, one call at a time
 * (api_call_run) or many on one curl multi handle (api_call_curl, api_call_done), and what went
 * wrong in words that tell the user what to do next.
 */
#ifndef CLIENTS_API_API_H
#define CLIENTS_API_API_H

#include <stdint.h>
#include <sys/types.h>
#include <curl/curl.h>
#include <jansson.h>

#define API_TEXT_MAX 1024
#define API_CODE_MAX 48

enum api_kind {
	API_OK,
	API_CONFIG,      /* no key, a bad URL, a key file that others can read */
	API_UNREACHABLE, /* no such host, nothing listens, TLS failed: nothing was sent */
	API_BROKEN,      /* the connection ended or stalled half-way: what was done is not known */
	API_STRANGE,     /* not this API's answer: not JSON, a redirect, a proxy's page */
	API_REFUSED,     /* the server said no: status and code */
	API_STOPPED,     /* a callback of the caller ended it */
};

struct api_error {
	enum api_kind kind;
	int status;              /* of HTTP; 0: no answer came */
	int retry_after;         /* seconds; -1: not said */
	char code[API_CODE_MAX]; /* "not_found"; "" if the server named none */
	char text[API_TEXT_MAX]; /* one line of UTF-8 without control characters */
};

/* A file that was read before the program gave up files; empty: p is NULL. */
struct api_pem {
	char *p;
	size_t n;
};

/* Where the server is. All is owned; keys are wiped when freed. */
struct api_server {
	char *url;               /* without a slash at its end */
	char *key;               /* NULL: the server asks for none */
	struct api_pem ca;       /* whom to trust instead of whom this machine trusts */
	struct api_pem cert;     /* a client certificate, with those that lead to its CA */
	struct api_pem cert_key; /* and its private key */
};

/* What the command line gives; NULL is not given. */
struct api_options {
	const char *url;      /* else AGENT_SANDBOX_URL, else http://127.0.0.1:8080 */
	const char *key_file; /* else see api_server_init() */
	const char *ca_file;  /* PEM; else AGENT_SANDBOX_CA_FILE */
	const char *cert;     /* PEM; else AGENT_SANDBOX_CLIENT_CERT */
	const char *cert_key; /* PEM; else AGENT_SANDBOX_CLIENT_KEY, else in the file of cert */
};

/*
 * The key is in key_file, else in AGENT_SANDBOX_API_KEY, else in the file
 * AGENT_SANDBOX_API_KEY_FILE, else in ~/.config/agent-sandbox/key (XDG_CONFIG_HOME) if there is
 * one, else there is none. A file with a key that its group or others can read is refused. 0, or -1
 * and why; opens no file later.
 */
int api_server_init(struct api_server *, const struct api_options *, struct api_error *);
void api_server_free(struct api_server *);

struct api_call;

/* Bytes of a body to send: how many were put into buf, 0 at the end, -1 to stop the call, or
 * API_LATER (then curl_easy_pause() goes on). */
#define API_LATER (-2)
typedef ssize_t api_read(void *arg, char *buf, size_t size);
/* Bytes of an answer: 0, -1 to stop the call, or API_LATER: they come again after
 * curl_easy_pause(). */
typedef int api_write(void *arg, const char *data, size_t n);
/* One object of an application/x-ndjson answer, borrowed: 0, or -1 to stop the call. */
typedef int api_event(void *arg, const json_t *event);

/* method and path ("/v1/sandboxes?limit=2", escaped: see api_path) are copied; the server must
 * outlive the call. Never NULL: no memory is fatal. */
struct api_call *api_call_new(const struct api_server *, const char *method, const char *path);
void api_call_free(struct api_call *);

void api_call_body(struct api_call *, json_t *body); /* JSON; takes the reference */
/* A raw body out of memory, copied. Unlike an upload it is sent again by itself when a kept
 * connection turns out to have ended, but never that of a POST. */
void api_call_bytes(struct api_call *, const char *data, size_t n);
void
api_call_upload(struct api_call *, int64_t size /* bytes; -1: not known */, api_read *, void *arg);
/* What becomes of a 2xx answer; without one of these it is JSON and kept (at most 64 MiB). An
 * answer that says no never reaches them. */
void api_call_download(struct api_call *, api_write *, void *arg);
void api_call_events(struct api_call *, api_event *, void *arg);
void api_call_header(struct api_call *, const char *name, const char *value);
/* Seconds for the whole call; 0 (as made): no limit but 10 s to connect. */
void api_call_timeout(struct api_call *, double seconds);

/* Does it: 0, or -1 and why. Calls one after the other share their connection. */
int api_call_run(struct api_call *, struct api_error *);
/* For many at once: the prepared handle, which stays the call's own (CURLOPT_PRIVATE is the call),
 * and the judgement when the multi handle says that it is done. */
CURL *api_call_curl(struct api_call *);
int api_call_done(struct api_call *, CURLcode, struct api_error *);

/* libcurl's start, done by the first call at the latest: before a program confines itself. */
void api_start(void);

/* After success: the kept answer, borrowed; NULL if it was empty. */
const json_t *api_call_json(const struct api_call *);
/* Content-Length of the answer in bytes, -1 if it has none; from the first api_write on. */
int64_t api_call_length(const struct api_call *);

/* printf for paths: each %s is percent-encoded as one segment or query value ("/" too), %d and
 * %lld are as usual. To be freed. */
char *api_path(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
