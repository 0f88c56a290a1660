/* What the settings of those who connect must be: proxies in front, pages of other origins. Pure,
 * like check.c. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "common/items.h"
#include "common/keys_file.h"
#include "config/settings.h"

#define NAME(key) "AGENT_SANDBOX_" #key
#define ORIGIN_MAX 255

static int
check_proxies(const struct config *c, char *text)
{
	const char *list = c->str[CFG_TRUSTED_PROXIES], *item, *why = "is too long";
	char net[KEYS_NET_TEXT];
	struct keys_net parsed;
	size_t n;

	while ((item = items_next(&list, &n)) != NULL) {
		snprintf(net, sizeof(net), "%.*s", (int)n, item);
		if (n >= sizeof(net) || keys_net_parse(net, &parsed, &why) == -1)
			return config_refuse(text, NAME(TRUSTED_PROXIES) ": %s %s", net, why);
	}
	return 0;
}

/* "host" or "[v6]", in the letters that a browser sends. Returns its end, NULL: there is none. */
static const char *
host_end(const char *p, const char *end)
{
	const char *q = p;

	if (p < end && *p == '[') {
		for (q++; q < end && (isdigit((unsigned char)*q) || strchr("abcdef:", *q) != NULL);
		     q++)
			;
		return q < end && *q == ']' && q > p + 2 ? q + 1 : NULL;
	}
	while (q < end &&
	       (islower((unsigned char)*q) || isdigit((unsigned char)*q) || *q == '-' || *q == '.'))
		q++;
	return q > p ? q : NULL;
}

static int
is_port(const char *p, size_t n, const char *usual)
{
	size_t i;

	if (n == 0)
		return 1;
	if (*p != ':' || n < 2 || n > 6 || p[1] == '0')
		return 0;
	for (i = 1; i < n; i++) {
		if (!isdigit((unsigned char)p[i]))
			return 0;
	}
	return n != strlen(usual) || memcmp(p, usual, n) != 0;
}

static int
begins(const char *p, size_t n, const char *with)
{
	return n >= strlen(with) && memcmp(p, with, strlen(with)) == 0;
}

/* Exactly as a browser writes it, since it is compared so. Without TLS only pages of this machine.
 */
static int
is_origin(const char *p, size_t n)
{
	static const char *const local[] = {"localhost", "127.0.0.1", "[::1]"};
	const char *end = p + n, *host, *rest;
	size_t i;

	if (n > ORIGIN_MAX)
		return 0;
	if (begins(p, n, "https://")) {
		rest = host_end(p + 8, end);
		return rest != NULL && is_port(rest, (size_t)(end - rest), ":443");
	}
	host = p + 7;
	if (!begins(p, n, "http://") || (rest = host_end(host, end)) == NULL ||
	    !is_port(rest, (size_t)(end - rest), ":80"))
		return 0;
	for (i = 0; i < sizeof(local) / sizeof(local[0]); i++) {
		if (begins(host, (size_t)(rest - host), local[i]) &&
		    (size_t)(rest - host) == strlen(local[i]))
			return 1;
	}
	return 0;
}

static int
check_origins(const struct config *c, char *text)
{
	const char *list = c->str[CFG_CORS_ORIGINS], *item;
	size_t n;

	while ((item = items_next(&list, &n)) != NULL) {
		if (!is_origin(item, n))
			return config_refuse(text,
			    NAME(CORS_ORIGINS) ": %.*s is not an origin as browsers send it: "
					       "https://HOST or https://HOST:PORT, in lower case "
					       "and without the usual port (http:// only of "
					       "localhost, 127.0.0.1 and [::1])",
			    (int)(n > 200 ? 200 : n), item);
	}
	return 0;
}

/* Whoever reaches it needs no key. */
static int
check_metrics(const struct config *c, char *text)
{
	const char *listen = c->str[CFG_METRICS_LISTEN];
	union loopback at;
	socklen_t len;

	if (*listen != '\0' && config_loopback(listen, &at, &len) == -1)
		return config_refuse(text,
		    NAME(METRICS_LISTEN) ": must be ADDRESS:PORT of a loopback address, such as "
					 "127.0.0.1:9464 or [::1]:9464");
	return 0;
}

int
config_check_front(const struct config *c, char *text)
{
	return check_proxies(c, text) == -1 || check_origins(c, text) == -1 ||
		       check_metrics(c, text) == -1
		   ? -1
		   : 0;
}
