/* What a client of the API gives up (confine_client.h). */
#include "common/confine_client.h"

#include <sys/prctl.h>
#include <sys/resource.h>

#include <linux/seccomp.h>

#include "common/confine_rules.h"
#include "common/log.h"

int
confine_client(const struct confine_path *paths)
{
	static struct confine_filter filter;
	const struct rlimit none = {0, 0};
	int partial = 0;

	if (setrlimit(RLIMIT_CORE, &none) == -1)
		fatal("confinement: setrlimit");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == -1)
		fatal("confinement: no_new_privs");
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == -1)
		fatal("confinement: dumpable");
	if (paths != NULL && confine_landlock_client(paths) == -1)
		partial = 1;
	confine_filter_begin(&filter, SECCOMP_RET_ALLOW);
	confine_filter_add(&filter, &confine_group_client);
	confine_filter_add(&filter, &confine_group_parent);
	confine_filter_end(&filter);
	if (confine_filter_load(&filter) == -1)
		partial = 1;
	return partial;
}
