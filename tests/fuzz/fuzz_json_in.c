// link: apid/json_in.o apid/env.o apid/exec_request.o apid/apid.o apid/auth.o common/base64.o
// link: apid/path.o apid/head.o -ljansson -lcrypto
/* Bodies: whatever is accepted as a command fits the argument record; whatever is refused says why.
 */
#include <event2/buffer.h>
#include <stdlib.h>
#include <string.h>

#include "apid/env.h"
#include "apid/exec_request.h"
#include "proto/data.h"

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

static void
check_refusal(const struct refusal *why)
{
	if ((why->status != 400 && why->status != 413 && why->status != 422) ||
	    why->text[0] == '\0' || memchr(why->text, '\0', sizeof(why->text)) == NULL)
		abort();
}

/* argc + envc strings and the working directory, each with its NUL, and nothing behind. */
static void
check_args(struct exec_request *e)
{
	const char *p = (const char *)evbuffer_pullup(e->args, -1), *end = p + e->job.args_len;
	struct r_args head;
	uint32_t i;

	if (e->job.args_len != evbuffer_get_length(e->args) || e->job.args_len > RECORD_ARGS_MAX ||
	    e->job.timeout_us <= 0)
		abort();
	memcpy(&head, p, sizeof(head));
	p += sizeof(head);
	for (i = 0; i < head.argc + head.envc + 1; i++) {
		const char *nul = memchr(p, '\0', (size_t)(end - p));

		if (nul == NULL ||
		    (i >= head.argc && i < head.argc + head.envc && strchr(p, '=') < p + 1))
			abort();
		if (i == head.argc + head.envc && *p != '/')
			abort();
		p = nul + 1;
	}
	if (p != end || head.argc == 0)
		abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static const struct exec_limits limits = {60000000000, 3600000000000};
	static const struct field fields[] = {{"a", FIELD_INTEGER, 16}, {"b", FIELD_NUMBER, 0},
	    {"c", FIELD_STRINGS, 0}, {"d", FIELD_BOOL, 0}, {"e", FIELD_STRING, 0}};
	struct exec_request e;
	struct refusal why;
	json_t *body, *v[5];
	size_t bytes;

	memset(&why, 0, sizeof(why));
	if (json_parse((const char *)data, n, &body, &why) == -1) {
		check_refusal(&why);
		return 0;
	}
	if (exec_request_parse(body, &limits, &e, &why) == 0) {
		check_args(&e);
		evbuffer_free(e.args);
	} else {
		check_refusal(&why);
	}
	if (json_fields(body, fields, 5, v, &why) == 0) {
		if ((v[0] != NULL && json_int(v[0], 0) < 16) ||
		    (v[1] != NULL && json_scaled(v[1], 1e9) == 0))
			abort();
		if (env_check(v[2], &bytes, &why) == -1 || labels_check(v[2], &why) == -1)
			check_refusal(&why);
	}
	json_decref(body);
	return 0;
}
