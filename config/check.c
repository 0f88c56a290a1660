/* What a value must be beyond its type and range, and which do not go together. Pure, like
 * parse.c. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <bsd/stdlib.h>

#include "common/image_ref.h"
#include "common/egress.h"
#include "common/items.h"
#include "common/log.h"
#include "common/pool_list.h"
#include "config/settings.h"

#define NAME(key) "AGENT_SANDBOX_" #key
#define KEY_MIN 16
#define KEY_MAX 256
#define DATA_DIR_MAX 800
#define IMAGE_NAME_MAX 511
#define WORD_MAX 64
#define RUN_MEMORY_MIN 16
#define TLS_CERTS_MAX 16

static int
all_graph(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!isgraph((unsigned char)p[i]))
			return 0;
	return n > 0;
}

/* Letters, digits and "_.-" behind a letter or digit: what the engine allows in the name of a
 * network or runtime. */
static int
is_word(const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-");

	return s[n] == '\0' && n > 0 && n <= WORD_MAX && isalnum((unsigned char)*s);
}

static int
check_keys(const struct config *c, char *text)
{
	const char *list = c->str[CFG_API_KEYS], *item;
	size_t len, count = 0;

	while ((item = items_next(&list, &len)) != NULL) {
		count++;
		if (len < KEY_MIN)
			return config_refuse(text,
			    NAME(API_KEYS) ": each key must have at least %d characters", KEY_MIN);
		if (len > KEY_MAX || !all_graph(item, len))
			return config_refuse(text,
			    NAME(API_KEYS) ": a key is at most %d visible ASCII characters",
			    KEY_MAX);
	}
	if (*c->str[CFG_KEYS_FILE] != '\0')
		return 0;
	if (count == 0 && !c->num[CFG_INSECURE_NO_AUTH])
		return config_refuse(
		    text, NAME(API_KEYS) ": is required; make a key with: agent-sandbox keygen");
	return 0;
}

static int
check_user(const struct config *c, char *text)
{
	const char *s = c->str[CFG_SANDBOX_USER], *colon = strchr(s, ':'), *why = NULL,
		   *why2 = NULL;
	char uid[16];

	if (colon == NULL || colon - s >= (long)sizeof(uid) || !isdigit((unsigned char)*s) ||
	    !isdigit((unsigned char)colon[1]))
		return config_refuse(
		    text, NAME(SANDBOX_USER) ": must be UID:GID, two numbers above 0");
	memcpy(uid, s, colon - s);
	uid[colon - s] = '\0';
	strtonum(uid, 1, INT32_MAX, &why);
	strtonum(colon + 1, 1, INT32_MAX, &why2);
	if (why != NULL || why2 != NULL)
		return config_refuse(
		    text, NAME(SANDBOX_USER) ": must be UID:GID, two numbers above 0");
	return 0;
}

static int
check_names(const struct config *c, char *text)
{
	static const char *const builtin[] = {"host", "none", "bridge", "default", "ingress"};
	const char *net = c->str[CFG_NETWORK_NAME], *runtime = c->str[CFG_DOCKER_RUNTIME];
	const char *image = c->str[CFG_DEFAULT_IMAGE], *list = c->str[CFG_ALLOWED_IMAGES], *item;
	const char *hosts = c->str[CFG_ALLOWED_HOSTS], *node = c->str[CFG_NODE_IMAGE];
	size_t len;

	if (!is_word(net))
		return config_refuse(
		    text, NAME(NETWORK_NAME) ": must be a name of letters, digits and _.-");
	for (size_t i = 0; i < sizeof(builtin) / sizeof(builtin[0]); i++)
		if (strcasecmp(net, builtin[i]) == 0)
			return config_refuse(text,
			    NAME(NETWORK_NAME) ": must not be the engine's own \"%s\"", builtin[i]);
	if (*runtime != '\0' && !is_word(runtime))
		return config_refuse(
		    text, NAME(DOCKER_RUNTIME) ": must be a name of letters, digits and _.-");
	if (!all_graph(image, strlen(image)) || strlen(image) > IMAGE_NAME_MAX)
		return config_refuse(text, NAME(DEFAULT_IMAGE) ": must be the name of an image");
	if (!all_graph(node, strlen(node)) || strlen(node) > IMAGE_NAME_MAX)
		return config_refuse(text, NAME(NODE_IMAGE) ": must be the name of an image");
	if (items_next(&list, &len) == NULL)
		return config_refuse(text, NAME(ALLOWED_IMAGES) ": names no image; * allows all");
	while ((item = items_next(&hosts, &len)) != NULL)
		if (!all_graph(item, len) || len > 255)
			return config_refuse(
			    text, NAME(ALLOWED_HOSTS) ": must be host names with commas between");
	return 0;
}

static int
check_audit(const struct config *c, char *text)
{
	const char *full = c->str[CFG_AUDIT_FULL], *sync = c->str[CFG_AUDIT_SYNC];

	if (strcmp(full, "refuse") != 0 && strcmp(full, "continue") != 0)
		return config_refuse(text, NAME(AUDIT_FULL) ": must be refuse or continue");
	if (strcmp(sync, "second") != 0 && strcmp(sync, "line") != 0)
		return config_refuse(text, NAME(AUDIT_SYNC) ": must be second or line");
	return 0;
}

static int
check_log_level(struct config *c, char *text)
{
	static const struct {
		const char *word;
		enum log_level level;
	} levels[] = {{"debug", LOG_LEVEL_DEBUG}, {"info", LOG_LEVEL_INFO},
	    {"warn", LOG_LEVEL_WARN}, {"warning", LOG_LEVEL_WARN}, {"error", LOG_LEVEL_ERROR}};

	for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
		if (strcasecmp(c->str[CFG_LOG_LEVEL], levels[i].word) == 0) {
			c->num[CFG_LOG_LEVEL] = levels[i].level;
			return 0;
		}
	}
	return config_refuse(text, NAME(LOG_LEVEL) ": must be debug, info, warn or error");
}

static int
check_network(const struct config *c, char *text)
{
	static struct egress_list list;
	const char *mode = c->str[CFG_NETWORK_MODE], *hosts = c->str[CFG_EGRESS_ALLOWLIST];
	const char *item, *why;
	size_t len;

	if (strcmp(mode, "bridge") != 0 && strcmp(mode, "proxy") != 0)
		return config_refuse(text, NAME(NETWORK_MODE) ": must be bridge or proxy");
	memset(&list, 0, sizeof(list));
	while ((item = items_next(&hosts, &len)) != NULL)
		if (egress_list_add(&list, item, len, &why) == -1)
			return config_refuse(
			    text, NAME(EGRESS_ALLOWLIST) ": %.*s: %s", (int)len, item, why);
	return 0;
}

/* The files themselves are looked at when they are opened. */
static int
check_tls(const struct config *c, char *text)
{
	const char *certs = c->str[CFG_TLS_CERT], *keys = c->str[CFG_TLS_KEY];
	size_t len, ncerts = 0, nkeys = 0;

	while (items_next(&certs, &len) != NULL)
		ncerts++;
	while (items_next(&keys, &len) != NULL)
		nkeys++;
	if (ncerts != nkeys)
		return config_refuse(text,
		    NAME(TLS_CERT) " names %zu files, and " NAME(
			TLS_KEY) " %zu: each certificate "
				 "needs its key, in the same order",
		    ncerts, nkeys);
	if (ncerts > TLS_CERTS_MAX)
		return config_refuse(
		    text, NAME(TLS_CERT) ": at most %d certificates", TLS_CERTS_MAX);
	if (ncerts == 0 && *c->str[CFG_TLS_CLIENT_CA] != '\0')
		return config_refuse(
		    text, NAME(TLS_CLIENT_CA) ": needs " NAME(TLS_CERT) " and " NAME(TLS_KEY));
	return 0;
}

static int
check_maxima(const struct config *c, char *text)
{
#define PAIR(def, max)                           \
	{                                        \
		CFG_##def, CFG_##max, #def, #max \
	}
	static const struct {
		int def, max;
		const char *def_name, *max_name;
	} pairs[] = {
	    PAIR(DEFAULT_TIMEOUT_SECONDS, MAX_TIMEOUT_SECONDS),
	    PAIR(DEFAULT_CPUS, MAX_CPUS),
	    PAIR(DEFAULT_MEMORY_MB, MAX_MEMORY_MB),
	    PAIR(DEFAULT_PIDS_LIMIT, MAX_PIDS_LIMIT),
	    PAIR(DEFAULT_EXEC_TIMEOUT_SECONDS, MAX_EXEC_TIMEOUT_SECONDS),
	};

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
		if (c->num[pairs[i].def] > c->num[pairs[i].max])
			return config_refuse(text,
			    "AGENT_SANDBOX_%s: %.40s is above AGENT_SANDBOX_%s, %.40s",
			    pairs[i].def_name, c->str[pairs[i].def], pairs[i].max_name,
			    c->str[pairs[i].max]);
	return 0;
}

/* An image that may not be used is said where it was named; without a name it is only not kept. */
static int
check_pool(const struct config *c, char *text)
{
	const char *list = c->str[CFG_POOL];
	struct pool_item item;
	struct image_ref ref;
	char image[IMAGE_NAME_MAX + 1];

	if (pool_asked(c) == -1)
		return config_refuse(text,
		    NAME(POOL) ": must be IMAGE=N with commas between, or N, at most %d together",
		    POOL_MEMBERS_MAX);
	while (pool_next(&list, &item) == 1) {
		if (item.image == NULL)
			continue;
		snprintf(image, sizeof(image), "%.*s", (int)item.len, item.image);
		if (item.len > IMAGE_NAME_MAX || image_parse(image, item.len, &ref) == -1)
			return config_refuse(
			    text, NAME(POOL) ": %.100s is not the name of an image", image);
		if (!image_allowed(c->str[CFG_ALLOWED_IMAGES], image, &ref))
			return config_refuse(text,
			    NAME(POOL) ": %.100s is not covered by " NAME(ALLOWED_IMAGES), image);
	}
	return 0;
}

/* 0 stands for what a sandbox has. */
static int
check_runs(const struct config *c, char *text)
{
	static const struct {
		int key;
		const char *name;
	} rows[] = {{CFG_RUN_MEMORY_MB, NAME(RUN_MEMORY_MB)},
	    {CFG_RUN_MAX_MEMORY_MB, NAME(RUN_MAX_MEMORY_MB)}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (c->num[rows[i].key] != 0 && c->num[rows[i].key] < RUN_MEMORY_MIN)
			return config_refuse(
			    text, "%s: must be 0, or at least %d", rows[i].name, RUN_MEMORY_MIN);
	return 0;
}

static int
check_log_format(struct config *c, char *text)
{
	const char *format = c->str[CFG_LOG_FORMAT];

	c->num[CFG_LOG_FORMAT] = strcasecmp(format, "json") == 0;
	if (!c->num[CFG_LOG_FORMAT] && strcasecmp(format, "text") != 0)
		return config_refuse(text, NAME(LOG_FORMAT) ": must be text or json");
	return 0;
}

int
config_check(struct settings *s, char *text)
{
	struct config *c = &s->c;

	if (check_log_level(c, text) == -1 || check_log_format(c, text) == -1 ||
	    check_audit(c, text) == -1 || check_keys(c, text) == -1 || check_user(c, text) == -1 ||
	    check_names(c, text) == -1 || check_network(c, text) == -1 ||
	    check_tls(c, text) == -1 || check_maxima(c, text) == -1 || check_runs(c, text) == -1 ||
	    check_pool(c, text) == -1 || config_check_front(c, text) == -1)
		return -1;
	if (!all_graph(c->str[CFG_HOST], strlen(c->str[CFG_HOST])) ||
	    strlen(c->str[CFG_HOST]) > 255)
		return config_refuse(text, NAME(HOST) ": must be an address or a host name");
	if (*c->str[CFG_DATA_DIR] == '\0' || strlen(c->str[CFG_DATA_DIR]) > DATA_DIR_MAX)
		return config_refuse(
		    text, NAME(DATA_DIR) ": must be a path of at most %d bytes", DATA_DIR_MAX);
	return 0;
}
