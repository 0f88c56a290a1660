/* Where a symbolic link leads, told from its text alone. */
#include <string.h>

#include "agent-sandbox/cp/cp.h"

int
link_stays_inside(const char *target, int depth)
{
	int names = 0;
	size_t n;

	if (*target == '/' || *target == '\0')
		return 0;
	for (; *target != '\0'; target += n) {
		target += strspn(target, "/");
		n = strcspn(target, "/");
		if (n == 2 && target[0] == '.' && target[1] == '.') {
			if (names > 0 || --depth < 0)
				return 0;
		} else if (n > 0 && !(n == 1 && *target == '.')) {
			names++;
		}
	}
	return 1;
}
