/* What is under way: calls on one multi handle, and what follows them (mcp.h). */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clients/mcp/mcp.h"
#include "common/log.h"

uint64_t
work_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static int
is_under_way(const struct mcp *m, const json_t *id)
{
	const struct work *w;

	TAILQ_FOREACH (w, &m->works, entry)
		if (!w->dropped && json_equal(w->id, id))
			return 1;
	return 0;
}

static struct work *
refuse(const struct request *r, const char *why)
{
	session_answer(r->mcp, r->batch, rpc_error(r->rpc->id, RPC_INVALID_REQUEST, why, NULL));
	return NULL;
}

struct work *
work_new(const struct request *r)
{
	struct mcp *m = r->mcp;
	json_t *token = json_object_get(r->rpc->meta, "progressToken");
	struct work *w;

	if (is_under_way(m, r->rpc->id))
		return refuse(r, "this id is in use by a request that is still under way");
	if (m->calls >= MCP_CALLS_MAX)
		return refuse(r, "64 calls are under way: wait for one of them to end");
	if (m->calls > 0 && m->weight + r->weight > MCP_CALL_BYTES_MAX)
		return refuse(r, "too much is being written at once: wait for a call to end");
	if ((w = calloc(1, sizeof(*w))) == NULL)
		fatal("calloc");
	w->mcp = m;
	w->version = r->version;
	w->id = json_incref(r->rpc->id);
	if (json_is_string(token) || json_is_integer(token))
		w->token = json_incref(token);
	w->batch = r->batch;
	w->weight = r->weight;
	w->begun = w->told = work_now();
	w->doing = "working";
	m->calls++;
	m->weight += w->weight;
	TAILQ_INSERT_TAIL(&m->works, w, entry);
	return w;
}

static void
drop_call(struct work *w)
{
	if (w->call == NULL)
		return;
	curl_multi_remove_handle(w->mcp->multi, w->curl);
	api_call_free(w->call);
	w->call = NULL;
}

static void
work_free(struct work *w)
{
	drop_call(w);
	TAILQ_REMOVE(&w->mcp->works, w, entry);
	w->mcp->calls--;
	w->mcp->weight -= w->weight;
	json_decref(w->id);
	json_decref(w->token);
	json_decref(w->args);
	json_decref(w->last);
	json_decref(w->found);
	cut_free(&w->out);
	cut_free(&w->err);
	free(w);
}

void
work_call(struct work *w, struct api_call *call, work_next *next)
{
	drop_call(w);
	w->call = call;
	w->curl = api_call_curl(call);
	w->next = next;
	if (curl_easy_setopt(w->curl, CURLOPT_PRIVATE, w) != CURLE_OK ||
	    curl_multi_add_handle(w->mcp->multi, w->curl) != CURLM_OK)
		fatalx("libcurl takes no call");
}

/* message NULL: nobody waits for one. */
static void
answer(struct work *w, json_t *message)
{
	session_answer(w->mcp, w->batch, w->dropped ? (json_decref(message), NULL) : message);
	work_free(w);
}

void
work_result(struct work *w, json_t *result)
{
	answer(w, rpc_result(w->id, session_finish(result, w->version)));
}

void
work_error(struct work *w, int code, const char *message, json_t *data)
{
	answer(w, rpc_error(w->id, code, message, data));
}

/*
 * A sandbox that is being made must not stay behind when nobody learns its id: that call goes on,
 * and call.c destroys what comes of it. All others end with their connection.
 */
static void
drop(struct work *w)
{
	w->dropped = 1;
	if (w->tool == NULL || (w->tool->id != TOOL_CREATE && w->tool->id != TOOL_FORK))
		answer(w, NULL);
}

void
work_cancel(struct mcp *m, json_t *id)
{
	struct work *w;

	TAILQ_FOREACH (w, &m->works, entry)
		if (!w->dropped && json_equal(w->id, id))
			break;
	if (w != NULL)
		drop(w);
}

void
work_cancel_all(struct mcp *m)
{
	struct work *w, *next;

	for (w = TAILQ_FIRST(&m->works); w != NULL; w = next) {
		next = TAILQ_NEXT(w, entry);
		drop(w);
	}
}

int
work_turn(struct mcp *m)
{
	struct api_error why;
	struct work *w;
	CURLMsg *msg;
	char *private;
	int left, running, failed;

	while (outbox_waiting(&m->out) <= MCP_OUT_SLOW) {
		if (curl_multi_perform(m->multi, &running) != CURLM_OK)
			fatalx("libcurl failed");
		if ((msg = curl_multi_info_read(m->multi, &left)) == NULL)
			return 0;
		if (curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, &private) != CURLE_OK)
			fatalx("libcurl lost a call");
		w = (struct work *)(void *)private;
		failed = api_call_done(w->call, msg->data.result, &why) == -1;
		w->next(w, failed ? &why : NULL);
	}
	return 1;
}

void
work_end_all(struct mcp *m)
{
	while (!TAILQ_EMPTY(&m->works)) {
		TAILQ_FIRST(&m->works)->dropped = 1;
		answer(TAILQ_FIRST(&m->works), NULL);
	}
}
