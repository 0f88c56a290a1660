/* What a command is given: checks the ARGS record of a client and makes the guest's argument block
 * of it. */
#include <string.h>

#include "proto/data.h"
#include "proto/guest.h"
#include "proto/job.h"
#include "sessiond/args.h"

#define ENVC_MAX 4096

#define DEFAULTS 2 /* of all sandboxes; the others where there is a way out */
#define HTTP_PROXY "http://127.0.0.1:3128"
#define NO_PROXY "localhost,127.0.0.1,::1"

static const char *const args_defaults[] = {
    "HOME=/workspace",
    "PATH=" GUEST_PATH,
    "HTTP_PROXY=" HTTP_PROXY,
    "http_proxy=" HTTP_PROXY,
    "HTTPS_PROXY=" HTTP_PROXY,
    "https_proxy=" HTTP_PROXY,
    "ALL_PROXY=" HTTP_PROXY, /* not socks5h: some clients refuse to start without a module for it */
    "all_proxy=" HTTP_PROXY,
    "NO_PROXY=" NO_PROXY,
    "no_proxy=" NO_PROXY,
};

/* Length of the name in "NAME=value"; 0 when there is none. */
static size_t
args_name(const char *s)
{
	const char *eq = strchr(s, '=');

	return eq == NULL ? 0 : (size_t)(eq - s);
}

int
args_env_valid(const char *env, size_t len)
{
	size_t i;

	if (len > 0 && env[len - 1] != '\0')
		return 0;
	for (i = 0; i < len; i += strlen(env + i) + 1) {
		if (args_name(env + i) == 0)
			return 0;
	}
	return 1;
}

/* Whether one of the count strings at env sets what "NAME=value" var sets. */
static int
args_sets(const char *env, uint32_t count, const char *var)
{
	size_t n = args_name(var) + 1;
	uint32_t i;

	for (i = 0; i < count; i++, env += strlen(env) + 1) {
		if (strncmp(env, var, n) == 0)
			return 1;
	}
	return 0;
}

/* Appends var unless one of the exec's own count variables at env sets it. */
static uint32_t
args_merge(struct buf *out, const char *env, uint32_t count, const char *var)
{
	if (args_sets(env, count, var))
		return 0;
	buf_add(out, var, strlen(var) + 1);
	return 1;
}

/* Skips count strings; NULL when they do not end in p[0..n). */
static const char *
args_skip(const char *p, const char *end, uint32_t count)
{
	const char *nul;

	for (; count > 0; count--) {
		nul = memchr(p, '\0', (size_t)(end - p));
		if (nul == NULL)
			return NULL;
		p = nul + 1;
	}
	return p;
}

const char *
args_build(
    const uint8_t *record, size_t len, const char *env, size_t env_len, int egress, struct buf *out)
{
	struct r_args head;
	const char *argv, *own, *dir, *end = (const char *)record + len;
	uint32_t counts[2], own_count, sandbox = 0;
	size_t i, at, defaults = sizeof(args_defaults) / sizeof(args_defaults[0]);

	if (len < sizeof(head))
		return "arguments: too short";
	memcpy(&head, record, sizeof(head));
	if (head.argc < 1 || head.argc > ARGS_MAX || head.envc > ENVC_MAX)
		return "arguments: bad count";
	argv = (const char *)record + sizeof(head);
	if ((own = args_skip(argv, end, head.argc)) == NULL ||
	    (dir = args_skip(own, end, head.envc)) == NULL || args_skip(dir, end, 1) != end)
		return "arguments: strings do not fit their count";
	if (!args_env_valid(own, (size_t)(dir - own)))
		return "arguments: a variable without a name";
	own_count = head.envc;

	at = buf_len(out);
	buf_add(out, &head, sizeof(counts));
	buf_add(out, argv, (size_t)(dir - argv));
	for (i = 0; i < env_len; i += strlen(env + i) + 1) {
		head.envc += args_merge(out, own, own_count, env + i);
		sandbox++;
	}
	for (i = 0; i < (egress ? defaults : DEFAULTS); i++) {
		if (!args_sets(env, sandbox, args_defaults[i]))
			head.envc += args_merge(out, own, own_count, args_defaults[i]);
	}
	buf_add(out, dir, (size_t)(end - dir));
	counts[0] = head.argc;
	counts[1] = head.envc;
	memcpy(buf_data(out) + at, counts, sizeof(counts));
	return buf_len(out) - at > GUEST_ARGS_MAX ? "arguments: too long" : NULL;
}
