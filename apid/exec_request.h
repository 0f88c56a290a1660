/* What a client asks to run, checked and turned into the argument record of a data socket. Pure. */
#ifndef APID_EXEC_REQUEST_H
#define APID_EXEC_REQUEST_H

#include "apid/json_in.h"
#include "proto/job.h"

struct evbuffer;

struct exec_limits {
	int64_t default_timeout; /* in 1e-9 seconds, as the configuration keeps them */
	int64_t max_timeout;
};

struct exec_request {
	struct m_job_exec job; /* timeout, args_len, args_sha256 are filled in */
	struct evbuffer *args; /* data of RECORD_ARGS; the caller frees it */
	json_t *input;         /* borrowed: the "stdin" member, or NULL */
};

/* 0, or -1 and why; then there is nothing to free. */
int exec_request_parse(
    json_t *body, const struct exec_limits *, struct exec_request *, struct refusal *);
/* A command of our own, argv with a NULL behind it, in /workspace; it is not long. */
void exec_request_argv(const char *const *argv, int64_t timeout_us, struct exec_request *);

#endif
