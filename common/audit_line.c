/* The end of a line of the audit log, names of its files, the text of a checkpoint: audit_line.h.
 */
#include "common/audit_line.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/ids.h"

#define HEX_LEN (AUDIT_HASH_TEXT - 1)
#define SEQ_DIGITS 19 /* below 2^63 */
#define NAME_DIGITS 12

static const char prev_begin[] = ",\"prev\":\"", seq_begin[] = ",\"seq\":";
#define PREV_LEN (sizeof(prev_begin) - 1)
#define SEQ_LEN (sizeof(seq_begin) - 1)

static int
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static int
is_hex(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'f');
}

/* Digits that end at end, behind seq_begin; else there is no seq. */
static uint64_t
seq_before(const char *line, const char *end)
{
	const char *p = end;
	uint64_t n = 0;

	while (p > line && end - p < SEQ_DIGITS && is_digit(p[-1]))
		p--;
	if (p == end || *p == '0' || (size_t)(p - line) < SEQ_LEN ||
	    memcmp(p - SEQ_LEN, seq_begin, SEQ_LEN) != 0)
		return 0;
	for (; p < end; p++)
		n = n * 10 + (uint64_t)(*p - '0');
	return n <= INT64_MAX ? n : 0;
}

int
audit_line_end(const char *line, size_t len, struct audit_end *end)
{
	const char *hex;

	if (len < 1 + PREV_LEN + HEX_LEN + 2 || line[0] != '{' || line[len - 1] != '}' ||
	    line[len - 2] != '"')
		return -1;
	hex = line + len - 2 - HEX_LEN;
	if (memcmp(hex - PREV_LEN, prev_begin, PREV_LEN) != 0)
		return -1;
	for (size_t i = 0; i < HEX_LEN; i++)
		if (!is_hex(hex[i]))
			return -1;
	memcpy(end->prev, hex, HEX_LEN);
	end->prev[HEX_LEN] = '\0';
	end->seq = seq_before(line, hex - PREV_LEN);
	return 0;
}

char *
audit_closed_name(char out[AUDIT_CLOSED_MAX], uint64_t first)
{
	snprintf(out, AUDIT_CLOSED_MAX, "audit-%0*" PRIu64 ".log", NAME_DIGITS, first);
	return out;
}

int
audit_closed_parse(const char *name, uint64_t *first)
{
	char same[AUDIT_CLOSED_MAX];
	size_t n = strlen(name);

	if (n < 10 + NAME_DIGITS || n > 10 + SEQ_DIGITS)
		return -1;
	*first = 0;
	for (const char *p = name + 6; is_digit(*p); p++)
		*first = *first * 10 + (uint64_t)(*p - '0');
	return strcmp(audit_closed_name(same, *first), name) == 0 ? 0 : -1;
}

size_t
audit_signed_text(
    char out[AUDIT_SIGNED_MAX], const char *instance, uint64_t seq, const char *head, int64_t at_us)
{
	char at[TIME_TEXT_MAX];

	return (size_t)snprintf(out, AUDIT_SIGNED_MAX,
	    "agent-sandbox audit checkpoint v1\n%.*s\n%" PRIu64 "\n%s\n%s\n", AUDIT_INSTANCE_LEN,
	    instance, seq, head, time_text(at, at_us));
}
