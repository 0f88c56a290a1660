/* Names of temporary files and staging folders in use. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/random.h>

#include "sandbox-init/mem.h"
#include "sandbox-init/temp.h"

struct temp {
	LIST_ENTRY(temp) next;
	char name[TEMP_NAME_MAX];
};

static LIST_HEAD(, temp) temps = LIST_HEAD_INITIALIZER(temps);

static struct temp *
find(const char *name)
{
	struct temp *t;

	LIST_FOREACH (t, &temps, next) {
		if (strcmp(t->name, name) == 0)
			return t;
	}
	return NULL;
}

void
temp_name(char name[TEMP_NAME_MAX])
{
	struct temp *t = mem_new(sizeof(*t));
	uint64_t r[2] = {0};

	(void)!getrandom(r, sizeof(r), 0);
	snprintf(t->name, sizeof(t->name), ".agent-sandbox-%016llx%016llx",
	    (unsigned long long)r[0], (unsigned long long)r[1]);
	memcpy(name, t->name, sizeof(t->name));
	LIST_INSERT_HEAD(&temps, t, next);
}

void
temp_forget(const char *name)
{
	struct temp *t = find(name);

	if (t == NULL)
		return;
	LIST_REMOVE(t, next);
	free(t);
}

int
temp_known(const char *name)
{
	return name[0] == '.' && find(name) != NULL;
}
