/* Beginning and end of long output (cut.h). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clients/api/text.h"
#include "clients/mcp/cut.h"
#include "common/log.h"

#define NOTE_MAX 200
#define CHAR_MAX_BYTES 4
#define REPLACEMENT "\xef\xbf\xbd"

void
cut_init(struct cut *c, size_t max)
{
	memset(c, 0, sizeof(*c));
	c->half = (max + 1) / 2;
}

void
cut_free(struct cut *c)
{
	free(c->head);
	free(c->tail);
	memset(c, 0, sizeof(*c));
}

static void
append(char **buf, size_t *n, size_t *room, const char *p, size_t more)
{
	if (more > *room - *n) {
		*room = (*n + more) * 2;
		if ((*buf = realloc(*buf, *room)) == NULL)
			fatal("output of %zu bytes", *room);
	}
	if (more > 0)
		memcpy(*buf + *n, p, more);
	*n += more;
}

/* The tail grows to twice its size before its older half is dropped, so that each byte is moved
 * once. */
static void
append_tail(struct cut *c, const char *p, size_t n)
{
	if (n >= c->half) {
		p += n - c->half;
		n = c->half;
		c->tail_n = 0;
	} else if (c->tail_n + n > 2 * c->half) {
		memmove(c->tail, c->tail + c->tail_n - c->half, c->half);
		c->tail_n = c->half;
	}
	append(&c->tail, &c->tail_n, &c->tail_room, p, n);
}

void
cut_add(struct cut *c, const char *p, size_t n)
{
	size_t first = c->half - c->head_n;

	c->total += n;
	if (first > n)
		first = n;
	append(&c->head, &c->head_n, &c->head_room, p, first);
	if (n > first)
		append_tail(c, p + first, n - first);
}

/* n bytes as UTF-8 into out, which holds three times as many. Returns the length. */
static size_t
clean(const char *p, size_t n, char *out)
{
	size_t at = 0, len;
	uint32_t ch;

	for (size_t i = 0; i < n; i += len) {
		len = text_char(p + i, n - i, &ch);
		if (ch == 0xfffd && len == 1) {
			memcpy(out + at, REPLACEMENT, 3);
			at += 3;
		} else {
			memcpy(out + at, p + i, len);
			at += len;
		}
	}
	return at;
}

static int
continues(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

/* Where a beginning of about n bytes of all ends: behind a line if one ends near, else between two
 * characters. */
static size_t
head_end(const char *all, size_t n)
{
	const char *line = memrchr(all + n - n / 4, '\n', n / 4);

	if (line != NULL)
		return (size_t)(line - all) + 1;
	for (int i = 1; i < CHAR_MAX_BYTES && n > 0 && continues(all[n]); i++)
		n--;
	return n;
}

/* And where an end of about n of total bytes begins. */
static size_t
tail_begin(const char *all, size_t total, size_t n)
{
	size_t at = total - n;
	const char *line = memchr(all + at, '\n', n / 4);

	if (line != NULL)
		return (size_t)(line - all) + 1;
	for (int i = 1; i < CHAR_MAX_BYTES && at < total && continues(all[at]); i++)
		at++;
	return at;
}

/* all is head and tail without what is missing between them. */
static char *
shorten(
    const struct cut *c, const char *all, size_t kept, size_t budget, size_t *n, uint64_t *omitted)
{
	size_t room = budget > NOTE_MAX ? budget - NOTE_MAX : 0, begin, end;
	char *out;

	end = head_end(all, room / 2);
	begin = tail_begin(all, kept, room / 2);
	*omitted = c->total - end - (kept - begin);
	if ((out = malloc(3 * (end + kept - begin) + NOTE_MAX + 1)) == NULL)
		fatal("output of %zu bytes", budget);
	*n = clean(all, end, out);
	*n += (size_t)snprintf(out + *n, NOTE_MAX,
	    "%s[... %" PRIu64 " of %" PRIu64
	    " bytes left out here; see parts with head, tail, sed -n or grep ...]\n",
	    *n > 0 && out[*n - 1] != '\n' ? "\n" : "", *omitted, c->total);
	*n += clean(all + begin, kept - begin, out + *n);
	return out;
}

char *
cut_text(const struct cut *c, size_t budget, size_t *n, uint64_t *omitted)
{
	size_t kept = c->head_n + c->tail_n;
	char *all = malloc(kept + 1), *out;
	uint64_t none;

	if (omitted == NULL)
		omitted = &none;
	if (all == NULL || (out = malloc(3 * kept + 1)) == NULL)
		fatal("output of %zu bytes", kept);
	if (c->head_n > 0)
		memcpy(all, c->head, c->head_n);
	if (c->tail_n > 0)
		memcpy(all + c->head_n, c->tail, c->tail_n);
	*omitted = 0;
	*n = c->total <= budget ? clean(all, kept, out) : budget + 1;
	/* Bytes that are not UTF-8 grow: then there is room for fewer. */
	for (size_t room = kept < budget ? kept : budget; *n > budget; room /= 2) {
		free(out);
		out = shorten(c, all, kept, room, n, omitted);
		if (room <= NOTE_MAX)
			break;
	}
	free(all);
	out[*n] = '\0';
	return out;
}
