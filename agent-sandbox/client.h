/* What the verbs share in talking to the server: its address and key, ids by their beginning, what
 * becomes of an error. */
#ifndef AGENT_SANDBOX_CLIENT_H
#define AGENT_SANDBOX_CLIENT_H

#include "agent-sandbox/options.h"
#include "clients/api/api.h"

enum exit_code {
	EXIT_REFUSED = 1, /* and whatever else fails */
	EXIT_USE = 2,
	EXIT_NOT_FOUND = 3,
	EXIT_KEY = 4,
	EXIT_UNREACHABLE = 5,
};

/* First of all: a standard stream that is closed must not become one of our own files. */
void client_standard_streams(void);
/* Before the first call: files here are opened after it ("cp"). */
void client_keeps_files(void);
/* Reads address and key, and gives up what a client does not need. On failure says why and exits.
 */
const struct api_server *client_server(void);
/* Verbs whose own errors have another status than those above ("exec": 125). 0: those above. */
void client_fail_with(int status);

/* Says what went wrong, in one line, and exits. */
void client_fail(const struct api_error *) __attribute__((noreturn));
void client_failx(int status, const char *fmt, ...) __attribute__((format(printf, 2, 3), noreturn));

/* One call: frees path, takes body (NULL: none). Returns the answer, to be freed with
 * json_decref(), or NULL if it is empty. On failure says why and exits. */
json_t *client_ask(const char *method, char *path, json_t *body);
/* The same with a header. */
json_t *
client_ask_with(const char *method, char *path, json_t *body, const char *name, const char *value);
/* What the answer must have, or it is not this API's: a member that is a string; a list of objects
 * that have it. Else says so, and exits. */
void client_check(const json_t *answer, const char *member);
const json_t *client_check_list(const json_t *answer, const char *list, const char *member);
/* Runs and frees the call; on failure says why and exits. */
json_t *client_run(struct api_call *);

/* The id of the one sandbox (or snapshot) that text begins: "sb_6c", or "6c". To be freed. */
char *client_sandbox(const char *text);
char *client_snapshot(const char *text);
/* Whether it can only be a snapshot's. */
int client_is_snapshot(const char *text);

/* "SB:path" in two: *sandbox is to be freed, *path points into text. -1 if there is no colon. */
int client_is_place(const char *text);
int client_split(const char *text, char **sandbox, const char **path);
/* The same, with the whole id; a word without a colon is wrong use. To be freed. */
char *client_place(const struct usage *, const char *text, const char **path);

const char *client_text(const json_t *object, const char *name); /* "" if it is no string */
int64_t client_number(const json_t *object, const char *name);

#endif
