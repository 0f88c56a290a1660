/* Events of a command out of their lines (event.h). */
#include <string.h>

#include "clients/api/event.h"

/*
 * Output of a command in base64 is most of what is ever read here, so lines of that form, and no
 * other, are taken apart without the JSON parser, which looks at each byte several times.
 */
static json_t *
quick_event(const char *line, size_t n)
{
	static const char *const heads[] = {
	    "{\"type\":\"stdout\",\"data\":\"", "{\"type\":\"stderr\",\"data\":\""};
	const size_t head = strlen(heads[0]);
	unsigned char odd = 0;
	int which;

	if (n < head + 2 || line[n - 1] != '}' || line[n - 2] != '"')
		return NULL;
	if ((which = memcmp(line, heads[0], head) != 0) && memcmp(line, heads[1], head) != 0)
		return NULL;
	for (size_t i = head; i < n - 2; i++) {
		unsigned char b = (unsigned char)line[i];

		odd |= b < 0x20 || b >= 0x7f || b == '"' || b == '\\';
	}
	if (odd)
		return NULL;
	return json_pack("{s:s,s:o}", "type", which == 0 ? "stdout" : "stderr", "data",
	    json_stringn_nocheck(line + head, n - 2 - head));
}

json_t *
event_read(const char *line, size_t n)
{
	json_t *event = quick_event(line, n);

	return event != NULL ? event : json_loadb(line, n, JSON_ALLOW_NUL, NULL);
}
