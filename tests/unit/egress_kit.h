/* For tests of egress lists: hosts and lists from words. */
#ifndef TESTS_UNIT_EGRESS_KIT_H
#define TESTS_UNIT_EGRESS_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "common/egress.h"

static inline int
host_of(const char *text, struct egress_host *host)
{
	const char *why = NULL;
	int r = egress_host(text, strlen(text), host, &why);

	assert_true((r == 0) == (why == NULL));
	return r;
}

static struct egress_list list;

/* A list of the words of text. */
static inline void
make_list(const char *text)
{
	const char *why;
	size_t n;

	memset(&list, 0, sizeof(list));
	for (; *text != '\0'; text += n + (text[n] == ' ')) {
		n = strcspn(text, " ");
		if (egress_list_add(&list, text, n, &why) != 0)
			fail_msg("%.*s: %s", (int)n, text, why);
	}
	assert_true(egress_list_valid(list.text, list.len));
}

#endif
