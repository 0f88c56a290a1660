/* Keeps the table of tenants. */
#include <bsd/string.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "managerd/tenant.h"

#define BUCKETS 1024

LIST_HEAD(bucket, tenant);

static struct bucket table[BUCKETS];
static struct tenant **numbered;
static size_t count;

static struct bucket *
bucket_of(const char *name)
{
	uint32_t h = 2166136261u;

	while (*name != '\0')
		h = (h ^ (unsigned char)*name++) * 16777619u;
	return &table[h % BUCKETS];
}

static void
unlimited(struct tenant *t)
{
	int q;

	for (q = 0; q < KEYS_QUOTAS; q++)
		t->quota[q] = KEYS_NO_QUOTA;
}

static void
number_give(struct tenant *t)
{
	struct tenant **more = numbered;

	if (count % BUCKETS == 0 &&
	    (more = reallocarray(numbered, count + BUCKETS, sizeof(*more))) == NULL)
		fatal("tenants");
	numbered = more;
	t->number = count;
	numbered[count++] = t;
}

struct tenant *
tenant_numbered(size_t i)
{
	return i < count ? numbered[i] : NULL;
}

struct tenant *
tenant_get(const char *name)
{
	struct bucket *bucket = bucket_of(name);
	struct tenant *t;

	LIST_FOREACH (t, bucket, bucket)
		if (strcmp(t->name, name) == 0)
			return t;
	if ((t = calloc(1, sizeof(*t))) == NULL)
		fatal("tenant");
	strlcpy(t->name, name, sizeof(t->name));
	unlimited(t);
	TAILQ_INIT(&t->boxes);
	TAILQ_INIT(&t->snaps);
	LIST_INSERT_HEAD(bucket, t, bucket);
	number_give(t);
	return t;
}

struct tenant *
tenant_default(void)
{
	static struct tenant *t;

	if (t == NULL)
		t = tenant_get(KEYS_TENANT);
	return t;
}

void
tenants_unlimited(void)
{
	struct tenant *t;
	size_t i;

	for (i = 0; i < BUCKETS; i++)
		LIST_FOREACH (t, &table[i], bucket)
			unlimited(t);
}
