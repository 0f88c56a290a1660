/*
 * Paths: a Landlock domain that handles every right this kernel knows, so that all that no rule
 * names is refused, and (newer kernels) TCP, signals and abstract sockets to the outside of the
 * domain.
 */
#include "common/confine_rules.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/landlock.h>

#include "common/log.h"

/* The kernel's interface as of ABI 7, since the system's headers may be older. */
#define FS_V1 ((UINT64_C(1) << 13) - 1)
#define FS_REFER (UINT64_C(1) << 13)     /* 2 */
#define FS_TRUNCATE (UINT64_C(1) << 14)  /* 3 */
#define FS_IOCTL_DEV (UINT64_C(1) << 15) /* 5 */
#define NET_BIND_TCP (UINT64_C(1) << 0)  /* 4 */
#define NET_CONNECT_TCP (UINT64_C(1) << 1)
#define SCOPE_ABSTRACT_UNIX (UINT64_C(1) << 0) /* 6 */
#define SCOPE_SIGNAL (UINT64_C(1) << 1)

struct ruleset_attr {
	uint64_t handled_access_fs;
	uint64_t handled_access_net; /* 4 */
	uint64_t scoped;             /* 6 */
};

#define READ_RIGHTS (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define WRITE_RIGHTS (LANDLOCK_ACCESS_FS_WRITE_FILE | FS_TRUNCATE)
#define CREATE_RIGHTS                                                \
	(LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_DIR | \
	    LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR | FS_REFER)
#define FILE_RIGHTS (LANDLOCK_ACCESS_FS_READ_FILE | WRITE_RIGHTS)

int
confine_landlock_abi(void)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

	return abi > 0 ? (int)abi : 0;
}

static void
handled(int abi, struct ruleset_attr *attr, size_t *size)
{
	*size = sizeof(attr->handled_access_fs);
	attr->handled_access_fs = FS_V1;
	if (abi >= 2)
		attr->handled_access_fs |= FS_REFER;
	if (abi >= 3)
		attr->handled_access_fs |= FS_TRUNCATE;
	if (abi >= 5)
		attr->handled_access_fs |= FS_IOCTL_DEV;
	if (abi >= 4) {
		attr->handled_access_net = NET_BIND_TCP | NET_CONNECT_TCP;
		*size = offsetof(struct ruleset_attr, scoped);
	}
	if (abi >= 6) {
		attr->scoped = SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL;
		*size = sizeof(*attr);
	}
}

static uint64_t
rights_of(const struct confine_path *p)
{
	uint64_t rights = 0;
	const char *c;

	for (c = p->rights; *c != '\0'; c++) {
		if (*c == 'r')
			rights |= READ_RIGHTS;
		else if (*c == 'w')
			rights |= WRITE_RIGHTS;
		else if (*c == 'c')
			rights |= CREATE_RIGHTS;
		else
			fatalx("confinement: path %s: unknown right '%c'", p->path, *c);
	}
	return rights;
}

static void
allow_path(int ruleset, const struct confine_path *p, uint64_t known, int may_lack)
{
	struct landlock_path_beneath_attr attr = {.allowed_access = rights_of(p) & known};
	struct stat st;

	if ((attr.parent_fd = open(p->path, O_PATH | O_CLOEXEC)) == -1 && may_lack)
		return;
	if (attr.parent_fd == -1 || fstat(attr.parent_fd, &st) == -1)
		fatal("confinement: path %s", p->path);
	if (!S_ISDIR(st.st_mode))
		attr.allowed_access &= FILE_RIGHTS;
	if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &attr, 0) == -1)
		fatal("confinement: Landlock rule for %s", p->path);
	close(attr.parent_fd);
}

int
confine_landlock_enter(const struct confine *confine, const struct confine_ids *ids)
{
	struct ruleset_attr attr = {0};
	const struct confine_path *p;
	int abi = confine_landlock_abi(), ruleset;
	size_t size;

	if (abi == 0)
		return confine_weaker(ids, "Landlock");
	handled(abi, &attr, &size);
	if (confine->tcp_out)
		attr.handled_access_net &= NET_BIND_TCP;
	ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
	if (ruleset == -1)
		return confine_weaker(ids, "a Landlock domain");
	/* A socket that is not there yet is nothing that could be allowed. */
	p = confine->root == ROOT_SOCKET && ids->path[0] == '\0' ? NULL : confine->paths;
	for (; p != NULL && p->path != NULL; p++)
		allow_path(ruleset, p, attr.handled_access_fs, 0);
	if (syscall(SYS_landlock_restrict_self, ruleset, 0) == -1)
		fatal("confinement: landlock_restrict_self");
	close(ruleset);
	return 0;
}

int
confine_landlock_client(const struct confine_path *paths)
{
	struct ruleset_attr attr = {0};
	const struct confine_path *p;
	int abi = confine_landlock_abi(), ruleset;
	size_t size;

	if (abi == 0)
		return -1;
	handled(abi, &attr, &size);
	attr.handled_access_net &= NET_BIND_TCP;
	if ((ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0)) == -1)
		return -1;
	for (p = paths; p->path != NULL; p++)
		allow_path(ruleset, p, attr.handled_access_fs, 1);
	if (syscall(SYS_landlock_restrict_self, ruleset, 0) == -1)
		fatal("confinement: landlock_restrict_self");
	close(ruleset);
	return 0;
}
