/* Comma-separated lists; see items.h. */
#include "common/items.h"

#include <string.h>

const char *
items_next(const char **list, size_t *len)
{
	const char *p;

	while (**list != '\0') {
		p = *list + strspn(*list, " \t");
		*len = strcspn(p, ",");
		*list = p + *len + (p[*len] == ',');
		while (*len > 0 && (p[*len - 1] == ' ' || p[*len - 1] == '\t'))
			(*len)--;
		if (*len > 0)
			return p;
	}
	return NULL;
}
