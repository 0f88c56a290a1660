/* Reads hosts(5): an address, then names; "#" begins a comment. */
#include <string.h>

#include "sandbox-init/hosts.h"

static int
is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* Skips blanks; the word behind them, or NULL at the end of the line. */
static const char *
next_word(const char **p, const char *end, size_t *len)
{
	const char *word;

	while (*p < end && is_blank(**p))
		(*p)++;
	word = *p;
	while (*p < end && !is_blank(**p))
		(*p)++;
	*len = (size_t)(*p - word);
	return *len > 0 ? word : NULL;
}

/* "127.64.x.y", without needless zeros. */
static int
parse_address(const char *p, size_t n, uint8_t address[4])
{
	unsigned value = 0, part = 0, digits = 0;
	size_t i;

	for (i = 0; i <= n; i++) {
		if (i < n && p[i] >= '0' && p[i] <= '9' && digits < 3 &&
		    (digits == 0 || value > 0)) {
			value = value * 10 + (unsigned)(p[i] - '0');
			digits++;
			continue;
		}
		if (digits == 0 || value > 255 || part > 3 || (i < n && p[i] != '.'))
			return -1;
		address[part++] = (uint8_t)value;
		value = digits = 0;
	}
	return part == 4 && address[0] == 127 && address[1] == 64 ? 0 : -1;
}

/* *at stands at the start of a line, or behind a name of one; then the address is read again. */
int
hosts_next(const char *text, size_t len, size_t *at, struct hosts_name *h)
{
	const char *line, *end, *p, *word, *comment;
	size_t n;

	while (*at < len) {
		for (line = text + *at; line > text && line[-1] != '\n'; line--)
			;
		end = memchr(line, '\n', len - (size_t)(line - text));
		if (end == NULL)
			end = text + len;
		comment = memchr(line, '#', (size_t)(end - line));
		if (comment == NULL)
			comment = end;
		p = line;
		word = next_word(&p, comment, &n);
		if (word != NULL && parse_address(word, n, h->address) == 0) {
			if (p < text + *at)
				p = text + *at;
			if ((h->name = next_word(&p, comment, &h->len)) != NULL) {
				*at = (size_t)(p - text);
				return 1;
			}
		}
		*at = (size_t)(end - text) + 1;
	}
	return 0;
}
