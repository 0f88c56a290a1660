/* The argument block of EXEC: counts, strings, nothing behind them. */
#include <stdlib.h>
#include <string.h>

#include "proto/guest.h"
#include "sandbox-init/args.h"
#include "sandbox-init/mem.h"

/* Points list[0..n) at n strings from *p on; -1 when the block ends before. */
static int
take_strings(uint8_t **p, const uint8_t *end, char **list, size_t n)
{
	uint8_t *nul;
	size_t i;

	for (i = 0; i < n; i++) {
		nul = memchr(*p, '\0', (size_t)(end - *p));
		if (nul == NULL)
			return -1;
		list[i] = (char *)*p;
		*p = nul + 1;
	}
	return 0;
}

int
args_parse(uint8_t *block, size_t len, struct args *a)
{
	uint8_t *p = block + 8, *end = block + len;
	uint32_t count[2];
	char *workdir;
	size_t i;

	memset(a, 0, sizeof(*a));
	if (len < sizeof(count))
		return -1;
	memcpy(count, block, sizeof(count));
	/* Each string takes a byte at least: this bounds what is allocated. */
	if (count[0] < 1 || count[0] > len || count[1] > len || count[0] + count[1] + 8 > len)
		return -1;
	a->argv = mem_new(((size_t)count[0] + count[1] + 2) * sizeof(char *));
	a->envp = a->argv + count[0] + 1;
	if (take_strings(&p, end, a->argv, count[0]) < 0 ||
	    take_strings(&p, end, a->envp, count[1]) < 0 ||
	    take_strings(&p, end, &workdir, 1) < 0 || p != end) {
		free(a->argv);
		a->argv = NULL;
		return -1;
	}
	a->workdir = workdir;
	a->path = GUEST_PATH;
	for (i = 0; i < count[1]; i++)
		if (strncmp(a->envp[i], "PATH=", 5) == 0)
			a->path = a->envp[i] + 5;
	return 0;
}

int
args_candidate(const char **path, const char *name, char *out, size_t size)
{
	const char *dir = *path, *end;
	size_t n, name_len = strlen(name);

	if (dir == NULL)
		return 0;
	end = strchrnul(dir, ':');
	*path = *end == ':' ? end + 1 : NULL;
	n = (size_t)(end - dir);
	if (n == 0) {
		dir = ".";
		n = 1;
	}
	if (n + 1 + name_len + 1 > size)
		return -1;
	memcpy(out, dir, n);
	out[n] = '/';
	memcpy(out + n + 1, name, name_len + 1);
	return 1;
}
