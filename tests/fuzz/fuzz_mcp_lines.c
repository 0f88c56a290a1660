// link: clients/mcp/args.o common/base64.o clients/mcp/call.o clients/mcp/cut.o
// link: clients/mcp/exec.o clients/mcp/mend.o clients/mcp/outbox.o clients/mcp/progress.o
// link: clients/mcp/resources.o clients/mcp/rpc.o clients/mcp/salvage.o clients/mcp/session.o clients/mcp/tools.o
// link: clients/mcp/uri.o clients/mcp/version.o clients/mcp/work.o
// link: clients/api/call.o clients/api/judge.o clients/api/lines.o clients/api/path.o clients/api/pem.o
// link: clients/api/event.o clients/api/server.o clients/api/text.o
// link: -lcurl -ljansson
/*
 * Whatever a client writes to the MCP server: no line makes it write anything but messages of
 * JSON-RPC, one a line, and none is left when the input ends. Calls are made, but never sent.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "clients/api/lines.h"
#include "clients/mcp/mcp.h"
#include "common/log.h"

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

static void
check_message(const json_t *m)
{
	const char *version = json_string_value(json_object_get(m, "jsonrpc"));

	if (version == NULL || strcmp(version, "2.0") != 0 ||
	    (json_object_get(m, "result") != NULL) + (json_object_get(m, "error") != NULL) +
		    (json_object_get(m, "method") != NULL) !=
		1)
		abort();
}

static void
check_output(struct outbox *o)
{
	const char *p = o->buf + o->at, *end;
	size_t left = o->n - o->at, i;

	for (; left > 0; left -= (size_t)(end + 1 - p), p = end + 1) {
		json_t *m, *one;

		if ((end = memchr(p, '\n', left)) == NULL ||
		    (m = json_loadb(p, (size_t)(end - p), JSON_ALLOW_NUL, NULL)) == NULL)
			abort();
		if (json_is_array(m)) {
			json_array_foreach (m, i, one) {
				check_message(one);
			}
		} else {
			check_message(m);
		}
		json_decref(m);
	}
	o->at = o->n = 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char url[] = "http://127.0.0.1:1";
	static struct mcp m;
	struct lines in;
	size_t step =
	    size > 0 && data[0] >= 'a' && data[0] <= 'z' ? (size_t)(data[0] - 'a' + 1) : size;

	log_set_level(LOG_LEVEL_ERROR);
	memset(&m, 0, sizeof(m));
	m.server.url = url;
	m.version = V_NONE;
	m.max_output = 4096;
	TAILQ_INIT(&m.works);
	api_start();
	if ((m.multi = curl_multi_init()) == NULL)
		abort();
	outbox_init(&m.out, -1);
	lines_init(&in, 65536);
	for (size_t at = 0; at < size; at += step)
		lines_feed(&in, (const char *)data + at, size - at < step ? size - at : step,
		    session_line, &m);
	lines_end(&in, session_line, &m);
	progress_turn(&m, work_now() + 60000);
	work_end_all(&m);
	if (m.calls != 0 || m.weight != 0)
		abort();
	if (m.out.n > 0)
		check_output(&m.out);
	outbox_free(&m.out);
	lines_free(&in);
	curl_multi_cleanup(m.multi);
	return 0;
}
