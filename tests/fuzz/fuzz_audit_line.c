/* A line of any bytes: no end of a line of the audit log, or one that is written the same again;
 * and as a name of a file, and as a state of keyd. */
// link: common/audit_line.o common/audit_state.o -lcrypto
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/audit_line.h"
#include "common/audit_state.h"

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

static void
line(const char *text, size_t len)
{
	struct audit_end end;
	char again[160];
	int n;

	if (audit_line_end(text, len, &end) == -1)
		return;
	if (strlen(end.prev) != AUDIT_HASH_TEXT - 1)
		abort();
	if (end.seq > 0)
		n = snprintf(again, sizeof(again), ",\"seq\":%" PRIu64 ",\"prev\":\"%s\"}", end.seq,
		    end.prev);
	else
		n = snprintf(again, sizeof(again), ",\"prev\":\"%s\"}", end.prev);
	if ((size_t)n > len || memcmp(text + len - n, again, (size_t)n) != 0)
		abort();
}

static void
name(const uint8_t *data, size_t size)
{
	char text[64] = "", same[AUDIT_CLOSED_MAX];
	uint64_t first;

	memcpy(text, data, size < sizeof(text) - 1 ? size : sizeof(text) - 1);
	if (audit_closed_parse(text, &first) == 0 &&
	    strcmp(audit_closed_name(same, first), text) != 0)
		abort();
}

static void
state(const uint8_t *data, size_t size)
{
	static uint8_t file[AUDIT_STATE_SIZE];
	struct audit_state_head head;
	struct audit_slot slot;
	int which;

	memset(file, 0, sizeof(file));
	memcpy(file, data, size < sizeof(file) ? size : sizeof(file));
	if (audit_state_read(file, size, &head, &slot, &which) == AUDIT_STATE_GOOD &&
	    (!audit_slot_good(&slot) || size != AUDIT_STATE_SIZE))
		abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	line((const char *)data, size);
	name(data, size);
	state(data, size);
	return 0;
}
