/* Lists of egress entries: put together, walked through, and asked. */
#include "common/egress.h"

#include <string.h>

static int
list_has(const struct egress_list *l, const char *text, size_t len)
{
	const char *line = l->text, *end;

	for (; l->len > 0; line = end + 1) {
		end = strchrnul(line, '\n');
		if ((size_t)(end - line) == len && memcmp(line, text, len) == 0)
			return 1;
		if (*end == '\0')
			break;
	}
	return 0;
}

int
egress_list_add(struct egress_list *l, const char *text, size_t len, const char **why)
{
	char canonical[EGRESS_ENTRY_MAX];
	struct egress_entry e;
	size_t n;

	if (egress_entry(text, len, &e, why) == -1)
		return -1;
	n = egress_entry_text(&e, canonical);
	if (list_has(l, canonical, n))
		return 0;
	if (l->entries == EGRESS_ENTRIES_MAX || l->len + 1 + n > EGRESS_TEXT_MAX) {
		*why = "the list is longer than 256 entries or 16384 bytes";
		return -1;
	}
	if (l->len > 0)
		l->text[l->len++] = '\n';
	memcpy(l->text + l->len, canonical, n + 1);
	l->len += n;
	l->entries++;
	return 0;
}

int
egress_next(struct egress_walk *w, struct egress_entry *e)
{
	const char *line = w->list + w->at, *end, *why;

	if (w->at >= w->len)
		return 0;
	end = memchr(line, '\n', w->len - w->at);
	if (end == NULL)
		end = w->list + w->len;
	w->at = (size_t)(end - w->list) + 1;
	return egress_entry(line, (size_t)(end - line), e, &why) == 0 ? 1 : -1;
}

/* Whether a line of list[0..len) is this name, with or without a port. */
static int
name_stands_in(const char *list, size_t len, const char *name)
{
	const char *line = list, *end = list + len, *stop;
	size_t n = strlen(name);

	for (; line < end; line = stop + 1) {
		if ((stop = memchr(line, '\n', (size_t)(end - line))) == NULL)
			stop = end;
		if ((size_t)(stop - line) >= n && memcmp(line, name, n) == 0 &&
		    (line + n == stop || line[n] == ':'))
			return 1;
	}
	return 0;
}

int
egress_next_host(struct egress_walk *w, char name[EGRESS_NAME_MAX + 1])
{
	struct egress_entry e;
	size_t at;
	int r;

	while (at = w->at, (r = egress_next(w, &e)) == 1) {
		if (e.kind != EGRESS_HOST || name_stands_in(w->list, at, e.name))
			continue;
		memcpy(name, e.name, sizeof(e.name));
		return 1;
	}
	return r;
}

static size_t
port_add(uint16_t port, uint16_t *ports, size_t n, size_t max)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (ports[i] == port)
			return n;
	if (n < max)
		ports[n++] = port;
	return n;
}

/* The ports that an entry allows: one, or two. */
static size_t
entry_ports(const struct egress_entry *e, uint16_t ports[2])
{
	ports[0] = e->port != 0 ? e->port : 80;
	ports[1] = 443;
	return e->port != 0 ? 1 : 2;
}

size_t
egress_ports(const char *list, size_t len, const char *name, uint16_t *ports, size_t max)
{
	struct egress_walk w = {list, len, 0};
	struct egress_entry e;
	uint16_t own[2];
	size_t n = 0, i, k;

	while (egress_next(&w, &e) == 1) {
		if (e.kind != EGRESS_HOST || strcmp(e.name, name) != 0)
			continue;
		k = entry_ports(&e, own);
		for (i = 0; i < k; i++)
			n = port_add(own[i], ports, n, max);
	}
	return n;
}

int
egress_list_valid(const char *list, size_t len)
{
	struct egress_walk w = {list, len, 0};
	struct egress_entry e;
	unsigned n = 0;
	int r;

	if (len > EGRESS_TEXT_MAX || (len > 0 && list[len - 1] == '\n'))
		return 0;
	while ((r = egress_next(&w, &e)) == 1)
		if (++n > EGRESS_ENTRIES_MAX)
			return 0;
	return r == 0;
}

int
egress_port_allowed(const struct egress_entry *e, uint16_t port)
{
	return e->port != 0 ? e->port == port : port == 80 || port == 443;
}

static int
name_below(const char *name, const char *top)
{
	size_t n = strlen(name), t = strlen(top);

	return n > t + 1 && name[n - t - 1] == '.' && strcmp(name + n - t, top) == 0;
}

static int
entry_has(const struct egress_entry *e, const struct egress_host *host)
{
	switch (e->kind) {
	case EGRESS_HOST:
		return host->addr.family == 0 && strcmp(e->name, host->name) == 0;
	case EGRESS_BELOW:
		return host->addr.family == 0 && name_below(host->name, e->name);
	case EGRESS_NET:
		return host->addr.family != 0 && egress_addr_within(&host->addr, &e->addr, e->bits);
	}
	return 0;
}

int
egress_match(const char *list, size_t len, const struct egress_host *host, uint16_t port)
{
	struct egress_walk w = {list, len, 0};
	struct egress_entry e;

	while (egress_next(&w, &e) == 1)
		if (egress_port_allowed(&e, port) && entry_has(&e, host))
			return 1;
	return 0;
}

/* Whether wide has every name or address that narrow has. */
static int
entry_holds(const struct egress_entry *wide, const struct egress_entry *narrow)
{
	if (narrow->kind == EGRESS_NET)
		return wide->kind == EGRESS_NET && wide->bits <= narrow->bits &&
		       egress_addr_within(&narrow->addr, &wide->addr, wide->bits) &&
		       egress_entry_range(wide) == egress_entry_range(narrow);
	if (wide->kind == EGRESS_BELOW && name_below(narrow->name, wide->name))
		return 1;
	return wide->kind == narrow->kind && strcmp(wide->name, narrow->name) == 0;
}

int
egress_covers(const char *list, size_t len, const struct egress_entry *narrow)
{
	struct egress_walk w;
	struct egress_entry e;
	uint16_t ports[2];
	size_t n = entry_ports(narrow, ports), i;
	int found;

	for (i = 0; i < n; i++) {
		w = (struct egress_walk){list, len, 0};
		found = 0;
		while (!found && egress_next(&w, &e) == 1)
			found = egress_port_allowed(&e, ports[i]) && entry_holds(&e, narrow);
		if (!found)
			return 0;
	}
	return 1;
}
