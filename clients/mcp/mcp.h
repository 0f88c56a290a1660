/*
 * The state of the MCP server, and how a request becomes work: an answer that needs calls of the
 * API. session.c takes messages, work.c keeps what is under way, call.c, exec.c and resources.c do
 * it, progress.c tells how it goes.
 */
#ifndef CLIENTS_MCP_MCP_H
#define CLIENTS_MCP_MCP_H

#include <stdint.h>
#include <sys/queue.h>

#include "clients/api/api.h"
#include "clients/mcp/cut.h"
#include "clients/mcp/outbox.h"
#include "clients/mcp/rpc.h"
#include "clients/mcp/tools.h"
#include "clients/mcp/version.h"

#define MCP_LINE_MAX ((size_t)16 << 20)       /* bytes of a message */
#define MCP_CALLS_MAX 64                      /* at once */
#define MCP_CALL_BYTES_MAX ((size_t)64 << 20) /* of all messages under way */
#define MCP_OUT_SLOW ((size_t)1 << 20)        /* waiting for the client: the calls wait too */
#define MCP_RESOURCE_MAX ((size_t)8 << 20)    /* bytes of a file read as a resource */

/* Answers that go out together, since their requests came so. */
struct batch {
	json_t *answers;
	size_t waiting;
};

struct mcp;
struct work;
/* What follows when the call of a work is done: failed is why, or NULL. */
typedef void work_next(struct work *, const struct api_error *failed);

struct work {
	TAILQ_ENTRY(work) entry;
	struct mcp *mcp;
	enum version version;
	json_t *id, *token; /* of progress, or NULL */
	struct batch *batch;
	int dropped;   /* cancelled: nobody waits for the answer */
	size_t weight; /* bytes of the message */
	struct api_call *call;
	CURL *curl; /* its handle */
	work_next *next;

	const struct tool *tool; /* NULL: a resource */
	json_t *args;            /* checked; or {"uri": ...} */
	struct cut out, err;     /* what a command prints; a file */
	json_t *last;            /* the event that ended a command */
	json_t *found;           /* resources, or sandboxes still to ask for them */

	uint64_t begun, told; /* ms */
	const char *doing;    /* for people */
	char said[200];       /* the last line of a command; "": none */
	int news;             /* said has not been told */
};

TAILQ_HEAD(works, work);

struct mcp {
	struct api_server server;
	CURLM *multi;
	struct outbox out;
	enum version version; /* of the handshake; V_NONE before */
	size_t max_output;    /* bytes of a result */
	struct works works;
	unsigned calls;
	size_t weight;
	int behind; /* calls are done that have not been followed up */
};

/* A request that is being answered. */
struct request {
	struct mcp *mcp;
	const struct rpc *rpc;
	enum version version;
	struct batch *batch;
	size_t weight;
};

/* session.c: a line of the client (lines.h), always 0; and answers. */
int session_line(void *mcp, const char *line, size_t n);
void session_answer(struct mcp *, struct batch *, json_t *message);
json_t *session_finish(json_t *result, enum version); /* adds what the version wants in each */
json_t *session_cacheable(json_t *result, enum version, int seconds);

/* work.c */
struct work *work_new(const struct request *); /* NULL: too much at once, which was answered */
/* Sends a call; next follows when it is done. */
void work_call(struct work *, struct api_call *, work_next *);
void work_result(struct work *, json_t *result);
void work_error(struct work *, int code, const char *message, json_t *data);
void work_cancel(struct mcp *, json_t *id);
void work_cancel_all(struct mcp *);
/* Calls that are done are followed up, as long as the client takes what comes of them: 1 if some
 * had to wait. */
int work_turn(struct mcp *);
/* Ends all that is under way without an answer. */
void work_end_all(struct mcp *);
uint64_t work_now(void); /* ms */

/* call.c, exec.c, resources.c: each answers with work_result() or work_error() in the end. */
void call_begin(struct work *);
void call_done(struct work *, json_t *structured);
void call_fail(struct work *, const char *why);
void call_failed(struct work *, json_t *why);
void exec_begin(struct work *);
void resources_list(struct work *);
void resources_read(struct work *);
json_t *resources_templates(void);

/* progress.c: tells those who asked; the time until the next is due in ms, or -1. */
int progress_turn(struct mcp *, uint64_t now);
/* A piece of a command's output. */
void progress_output(struct work *, const char *, size_t n);

#endif
