/* Egress allowlists: canonical form, the operator's list as the upper bound. Pure. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/egress.h"
#include "common/items.h"
#include "common/log.h"
#include "managerd/egress.h"

static int
egress_bad(const char *entry, const char *why, char *text, size_t size)
{
	snprintf(text, size, "egress_allowlist: %.300s: %s", entry, why);
	return 400;
}

/* The rest of the list, as far as it fits, that the operator's does not cover. */
static int
egress_beyond(const struct egress_policy *p, struct egress_walk walk, char *text, size_t size)
{
	struct egress_entry entry;
	char name[EGRESS_ENTRY_MAX];
	size_t n, more;

	n = snprintf(text, size, "egress_allowlist: not allowed by this server's own list:");
	while (egress_next(&walk, &entry) == 1) {
		if (egress_covers(p->list, strlen(p->list), &entry))
			continue;
		egress_entry_text(&entry, name);
		more = strlen(name) + 1;
		if (n + more + 4 >= size) {
			strcpy(text + n, " …");
			break;
		}
		n += snprintf(text + n, size - n, " %s", name);
	}
	return 400;
}

/* Whether the operator lets a sandbox have this list. */
static int
egress_bound(const struct egress_policy *p, const char *list, char *text, size_t size)
{
	struct egress_walk walk = {list, strlen(list), 0}, begin = walk;
	const struct egress_range *range;
	struct egress_entry entry;
	char name[EGRESS_ENTRY_MAX];

	if (*list != '\0' && *p->list == '\0' && !p->allow_network) {
		snprintf(text, size, "egress_allowlist: network is not allowed on this server");
		return 403;
	}
	while (egress_next(&walk, &entry) == 1) {
		if (*p->list != '\0') {
			if (!egress_covers(p->list, strlen(p->list), &entry))
				return egress_beyond(p, begin, text, size);
		} else if ((range = egress_entry_range(&entry)) != NULL) {
			egress_entry_text(&entry, name);
			snprintf(text, size,
			    "egress_allowlist: %s: is not public (%s); only this server's own "
			    "list can allow it",
			    name, range->reason);
			return 400;
		}
	}
	return 0;
}

static char *
egress_copy(const char *text)
{
	char *copy = strdup(text);

	if (copy == NULL)
		fatal("egress");
	return copy;
}

/* A way out without a list of its own. */
static int
egress_network(const struct egress_policy *p, char *text, size_t size)
{
	if (*p->list == '\0' || p->proxied)
		return 0;
	snprintf(text, size,
	    "network: not allowed on this server, which has a list of hosts; use "
	    "egress_allowlist");
	return 403;
}

int
egress_resolve(const struct egress_policy *p, int given, const struct strings *entries, int network,
    char **list, char *text, size_t size)
{
	static struct egress_list got; /* large; the last one is of no use any more */
	const char *entry = entries->bytes, *end = strings_end(entries), *why;
	int status;

	*list = NULL;
	if (network && given && entries->count > 0) {
		snprintf(
		    text, size, "egress_allowlist: network: true and a list exclude each other");
		return 400;
	}
	if (network)
		return egress_network(p, text, size);
	if (!given) {
		if (*p->list != '\0')
			*list = egress_copy(p->list);
		return 0;
	}
	memset(&got, 0, sizeof(got));
	for (; entry < end; entry += strlen(entry) + 1)
		if (egress_list_add(&got, entry, strlen(entry), &why) == -1)
			return egress_bad(entry, why, text, size);
	if ((status = egress_bound(p, got.text, text, size)) == 0)
		*list = egress_copy(got.text);
	return status;
}

int
egress_inherit(const struct egress_policy *p, const char *before, int network, char **list,
    char *text, size_t size)
{
	static const struct strings none;
	int status;

	if (network || before == NULL)
		return egress_resolve(p, 0, &none, network, list, text, size);
	*list = NULL;
	if ((status = egress_bound(p, before, text, size)) == 0)
		*list = egress_copy(before);
	return status;
}

const char *
egress_rule(const struct egress_policy *p, const struct spec *spec)
{
	/* It may have been made when the operator allowed more. */
	if (!p->allow_network && (spec->network || *p->list == '\0'))
		return NULL;
	if (spec->network)
		return p->proxied ? EGRESS_ANY : NULL;
	return spec->egress != NULL && *spec->egress != '\0' ? spec->egress : NULL;
}

int
egress_bridged(const struct egress_policy *p, const struct spec *spec)
{
	return spec->network && !p->proxied;
}

size_t
egress_names(const char *list, char out[EGRESS_TEXT_MAX])
{
	struct egress_walk walk = {list, strlen(list), 0};
	char name[EGRESS_NAME_MAX + 1];
	size_t n = 0, len;

	while (egress_next_host(&walk, name) == 1) {
		len = strlen(name);
		if (n > 0)
			out[n++] = '\n';
		memcpy(out + n, name, len); /* shorter than the list that it comes from */
		n += len;
	}
	return n;
}

char *
egress_server_list(const char *setting)
{
	static struct egress_list list;
	const char *item, *why;
	size_t len;

	memset(&list, 0, sizeof(list));
	while ((item = items_next(&setting, &len)) != NULL)
		if (egress_list_add(&list, item, len, &why) == -1)
			fatalx("the parent sent an egress list that is none");
	return egress_copy(list.text);
}
