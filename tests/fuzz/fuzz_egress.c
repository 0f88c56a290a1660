/* Hosts, entries and lists: what is taken has one spelling, which is taken again and means the
 * same. */
// link: common/egress.o common/egress_list.o common/egress_range.o
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/egress.h"

static void
check(int ok)
{
	if (!ok)
		abort();
}

static void
check_host(const char *text, size_t len)
{
	struct egress_host host, again;
	const char *why;

	if (egress_host(text, len, &host, &why) == -1)
		return;
	check(host.name[0] != '\0' && strlen(host.name) <= EGRESS_NAME_MAX);
	check(strspn(host.name, "abcdefghijklmnopqrstuvwxyz0123456789-_.:") == strlen(host.name));
	check(egress_host(host.name, strlen(host.name), &again, &why) == 0);
	check(memcmp(&host, &again, sizeof(host)) == 0);
}

static void
check_entry(const char *text, size_t len)
{
	char canonical[EGRESS_ENTRY_MAX], twice[EGRESS_ENTRY_MAX];
	struct egress_entry e, again;
	struct egress_host host;
	const char *why;
	size_t n;

	if (egress_entry(text, len, &e, &why) == -1)
		return;
	n = egress_entry_text(&e, canonical);
	check(n == strlen(canonical) && n < sizeof(canonical) && strchr(canonical, '\n') == NULL);
	check(egress_entry(canonical, n, &again, &why) == 0);
	check(memcmp(&e, &again, sizeof(e)) == 0 && egress_entry_text(&again, twice) == n);
	check(egress_covers(canonical, n, &e));
	if (e.kind == EGRESS_HOST) {
		check(egress_host(e.name, strlen(e.name), &host, &why) == 0);
		check(egress_match(canonical, n, &host, e.port != 0 ? e.port : 443));
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct egress_list list;
	struct egress_walk w = {(const char *)data, size, 0};
	struct egress_entry e;
	struct egress_addr a = {.family = 4};
	char name[EGRESS_NAME_MAX + 1];
	const char *p = (const char *)data, *end = p + size, *line, *why;
	uint16_t ports[8];

	check_host(p, size);
	check_entry(p, size);
	if (egress_list_valid(p, size))
		while (egress_next(&w, &e) != 0)
			;
	/* Line by line, as managerd does with what a client wrote. */
	memset(&list, 0, sizeof(list));
	for (line = p; line < end; line = p + 1) {
		if ((p = memchr(line, '\n', (size_t)(end - line))) == NULL)
			p = end;
		egress_list_add(&list, line, (size_t)(p - line), &why);
	}
	check(egress_list_valid(list.text, list.len) && strlen(list.text) == list.len);
	w = (struct egress_walk){list.text, list.len, 0};
	while (egress_next_host(&w, name) == 1)
		check(egress_ports(list.text, list.len, name, ports, 8) > 0);
	w = (struct egress_walk){list.text, list.len, 0};
	while (egress_next(&w, &e) == 1)
		check(egress_covers(list.text, list.len, &e));
	if (size >= 4)
		memcpy(a.byte, data, 4);
	egress_literal(list.text, list.len, &a, 80, 0);
	return 0;
}
