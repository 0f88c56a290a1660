/* Reads the list of the pool; see pool_list.h. */
#include "common/pool_list.h"

#include <string.h>

#include "common/items.h"
#include "proto/config.h"

static int
count_parse(const char *p, size_t n, int64_t *count)
{
	*count = 0;
	if (n == 0 || n > 4)
		return -1;
	for (size_t i = 0; i < n; i++) {
		if (p[i] < '0' || p[i] > '9')
			return -1;
		*count = *count * 10 + (p[i] - '0');
	}
	return *count <= POOL_MEMBERS_MAX ? 0 : -1;
}

int
pool_next(const char **list, struct pool_item *item)
{
	const char *p, *equals;
	size_t n;

	if ((p = items_next(list, &n)) == NULL)
		return 0;
	equals = memchr(p, '=', n);
	*item = (struct pool_item){.image = equals == NULL ? NULL : p};
	if (equals != NULL) {
		item->len = (size_t)(equals - p);
		if (item->len == 0)
			return -1;
		n -= item->len + 1;
		p = equals + 1;
	}
	return count_parse(p, n, &item->count) == -1 ? -1 : 1;
}

int64_t
pool_asked(const struct config *c)
{
	const char *list = c->str[CFG_POOL];
	struct pool_item item;
	int64_t sum = 0;
	int more, images = 0;

	while ((more = pool_next(&list, &item)) == 1) {
		sum += item.count;
		if (++images > POOL_IMAGES_MAX || sum > POOL_MEMBERS_MAX)
			return -1;
	}
	return more == -1 ? -1 : sum;
}

int64_t
pool_kept(const struct config *c)
{
	int64_t asked = pool_asked(c), room = c->num[CFG_POOL_MEMORY_MB];

	room /= c->num[CFG_DEFAULT_MEMORY_MB];
	return asked < 0 ? 0 : asked < room ? asked : room;
}
