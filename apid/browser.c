/* Refuses what a browser sends on behalf of a foreign page (browser.h). */
#include <string.h>
#include <strings.h>

#include "apid/browser.h"
#include "common/items.h"

int
browser_is_loopback(const char *address)
{
	static const char mapped[] = "::ffff:127.";

	return strcmp(address, "localhost") == 0 || strcmp(address, "::1") == 0 ||
	       strcmp(address, "[::1]") == 0 || strncmp(address, "127.", 4) == 0 ||
	       strncmp(address, mapped, sizeof(mapped) - 1) == 0;
}

/* The host of "host", "host:port", "[v6]" or "[v6]:port"; n is 0 when it is none of these. */
static struct slice
host_name(struct slice s)
{
	const char *colon, *end;
	size_t n = s.n, i;

	if (n > 0 && s.p[0] == '[') {
		if ((end = memchr(s.p, ']', n)) == NULL)
			return (struct slice){s.p, 0};
		n = (size_t)(end + 1 - s.p);
	} else if ((colon = memchr(s.p, ':', n)) != NULL) {
		n = (size_t)(colon - s.p);
	}
	if (n < s.n) {
		if (s.p[n] != ':' || s.n - n > 6)
			return (struct slice){s.p, 0};
		for (i = n + 1; i < s.n; i++) {
			if (s.p[i] < '0' || s.p[i] > '9')
				return (struct slice){s.p, 0};
		}
	}
	return (struct slice){s.p, n};
}

static int
host_is_ours(struct slice host, const struct browser_policy *policy)
{
	struct slice name = host_name(host), list = {policy->hosts, strlen(policy->hosts)};
	char text[256];

	if (name.n == 0 || name.n >= sizeof(text))
		return 0;
	if (slice_is(name, "localhost") || slice_is(name, "127.0.0.1") || slice_is(name, "[::1]"))
		return 1;
	memcpy(text, name.p, name.n);
	text[name.n] = '\0';
	if (strchr(text, ',') != NULL)
		return 0;
	if (head_has_token(list, text))
		return 1;
	if (host.n >= sizeof(text))
		return 0;
	memcpy(text, host.p, host.n);
	text[host.n] = '\0';
	return head_has_token(list, text);
}

/* "scheme://host[:port]" of an Origin is ours when its host and port are those of the request. */
static int
origin_is_own(struct slice origin, struct slice host)
{
	const char *p;
	size_t skip;

	if (host.p == NULL || (p = memmem(origin.p, origin.n, "://", 3)) == NULL)
		return 0;
	skip = (size_t)(p + 3 - origin.p);
	if (!slice_is((struct slice){origin.p, (size_t)(p - origin.p)}, "http") &&
	    !slice_is((struct slice){origin.p, (size_t)(p - origin.p)}, "https"))
		return 0;
	return origin.n - skip == host.n && strncasecmp(origin.p + skip, host.p, host.n) == 0;
}

int
browser_invites(const struct browser_policy *policy, struct slice origin)
{
	const char *list = policy->origins, *item;
	size_t n;

	if (origin.p == NULL)
		return 0;
	while ((item = items_next(&list, &n)) != NULL) {
		if (n == origin.n && memcmp(item, origin.p, n) == 0)
			return 1;
	}
	return 0;
}

const char *
browser_check(const struct head *h, const struct browser_policy *policy)
{
	struct slice host = h->field[FIELD_HOST], origin = h->field[FIELD_ORIGIN];
	struct slice site = h->field[FIELD_FETCH_SITE];

	int invited = browser_invites(policy, origin);

	if (site.p != NULL && !invited && !slice_is(site, "same-origin") && !slice_is(site, "none"))
		return "requests from web pages of other sites are refused";
	if (origin.p != NULL && !invited && !origin_is_own(origin, host))
		return "this Origin is not this server";
	if (policy->loopback && host.p != NULL && !host_is_ours(host, policy))
		return "this Host is not served here; AGENT_SANDBOX_ALLOWED_HOSTS adds names";
	return NULL;
}
