/* A key file of any bytes: refused in one line, or keys that hold what keys_file.h says of them. */
// link: common/keys_file.o common/keys_line.o common/keys_net.o -ljansson
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/keys_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

static void
check(const struct keys_key *k)
{
	static const uint8_t unknown[16];
	char text[KEYS_NET_TEXT];
	struct keys_net back;
	const char *why;

	if (!keys_name_valid(k->name) || !keys_name_valid(k->tenant) || k->scopes == 0)
		abort();
	if (!k->has_digest && *k->certificate == '\0')
		abort();
	for (int i = 0; i < KEYS_QUOTAS; i++)
		if (k->quota[i] < KEYS_NO_QUOTA)
			abort();
	for (size_t i = 0; i < k->nfrom; i++) {
		if (keys_net_parse(keys_net_text(text, &k->from[i]), &back, &why) == -1 ||
		    memcmp(&back, &k->from[i], sizeof(back)) != 0)
			abort();
		/* "::" stands for an address that is not known. */
		if (memcmp(back.addr, unknown, sizeof(unknown)) != 0 &&
		    !keys_from_allows(k, back.addr))
			abort();
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct keys_file f;
	char why[64] = "";

	if (keys_file_parse((const char *)data, size, &f, why, sizeof(why)) == 0) {
		for (size_t i = 0; i < f.count; i++)
			check(&f.keys[i]);
		keys_file_free(&f);
	} else if (*why == '\0' || strchr(why, '\n') != NULL || f.keys != NULL)
		abort();
	return 0;
}
