/* Progress notifications: while a command prints, and while something takes long (mcp.h). */
#include <string.h>

#include "clients/api/text.h"
#include "clients/mcp/mcp.h"
#include "common/log.h"

#define NEWS_EVERY 250                 /* ms, at most */
#define NEWS_AFTER 50                  /* ms: a command that is done by then needs none */
#define ALIVE_EVERY 5000               /* ms, when there is nothing new */
#define FIRST_AFTER 1000               /* ms, when there is nothing to say but that it takes time */
#define WAITING_MAX ((size_t)64 << 10) /* a reader that is behind gets no more of them */

/* When this one is to be told next. */
static uint64_t
due(const struct work *w)
{
	if (w->news)
		return w->told + (w->told == w->begun ? NEWS_AFTER : NEWS_EVERY);
	return w->told + (w->told == w->begun ? FIRST_AFTER : ALIVE_EVERY);
}

static void
tell(struct work *w, uint64_t now)
{
	double seconds = (double)(now - w->begun) / 1000;
	json_t *params = json_pack("{s:O, s:f}", "progressToken", w->token, "progress", seconds);

	if (params == NULL)
		fatalx("progress that is no JSON");
	if (w->version >= V_2025_03_26) {
		json_t *message = w->said[0] != '\0'
				      ? json_string(w->said)
				      : json_sprintf("%s (%.0f s)", w->doing, seconds);

		json_object_set_new(params, "message", message);
	}
	outbox_put(&w->mcp->out, rpc_notification("notifications/progress", params));
	w->told = now;
	w->news = 0;
}

int
progress_turn(struct mcp *m, uint64_t now)
{
	struct work *w;
	uint64_t next = UINT64_MAX;

	TAILQ_FOREACH (w, &m->works, entry) {
		if (w->token == NULL || w->dropped)
			continue;
		/* Each says more than the one before: a value must grow. */
		if (due(w) <= now && now > w->told && outbox_waiting(&m->out) < WAITING_MAX)
			tell(w, now);
		if (due(w) < next)
			next = due(w);
	}
	if (next == UINT64_MAX)
		return -1;
	return next > now ? (int)(next - now) : 1;
}

/* A carriage return ends a line as well: that is how programs draw progress. */
void
progress_output(struct work *w, const char *p, size_t n)
{
	size_t end = n, begin;

	if (w->token == NULL)
		return;
	while (end > 0 && strchr("\r\n", p[end - 1]) != NULL && p[end - 1] != '\0')
		end--;
	for (begin = end; begin > 0 && p[begin - 1] != '\n' && p[begin - 1] != '\r';)
		begin--;
	if (begin == end)
		return;
	text_line(p + begin, end - begin, w->said, sizeof(w->said));
	w->news = 1;
}
