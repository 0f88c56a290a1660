/* Confinement, step by step; see confine.h. */
#include "common/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/capability.h>
#include <linux/seccomp.h>

#include "common/confine_rules.h"
#include "common/log.h"

#define LOG_ROOM (UINT64_C(1) << 30)

#ifdef CONFINE_SANITIZED
static int confined;

/* The leak checker traces its own process, which a confined program must not. */
int __lsan_is_turned_off(void);
int
__lsan_is_turned_off(void)
{
	return confined || (prctl(CONFINE_MARK, 0, 0, 0, 0) == -1 && errno == EALREADY);
}
#endif

int
confine_weaker(const struct confine_ids *ids, const char *step)
{
	if (!ids->allow_weaker)
		fatal_config(
		    "confinement: %s: %s (AGENT_SANDBOX_ALLOW_WEAKER=true starts without it)", step,
		    strerror(errno));
	log_warn("confinement: without %s", step);
	return 1;
}

/* Sets soft and hard limit, or keeps a hard limit that is lower already. */
static void
limit(int what, uint64_t value)
{
	struct rlimit old, new = {value, value};

	if (getrlimit(what, &old) == -1)
		fatal("confinement: getrlimit");
	if (setrlimit(what, &new) == 0)
		return;
	if (errno != EPERM || old.rlim_max >= value)
		fatal("confinement: setrlimit");
	new.rlim_cur = new.rlim_max = old.rlim_max;
	if (setrlimit(what, &new) == -1)
		fatal("confinement: setrlimit");
}

/* The log may be a file; its lines must not be lost to the limit that is meant for others. */
static uint64_t
file_limit(uint64_t wanted)
{
	struct stat st;

	if (fstat(STDERR_FILENO, &st) == -1 || !S_ISREG(st.st_mode))
		return wanted;
	return wanted > (uint64_t)st.st_size + LOG_ROOM ? wanted : (uint64_t)st.st_size + LOG_ROOM;
}

/* Never RLIMIT_NPROC: it counts the processes of a uid in all of the machine. */
static void
set_limits(const struct confine *confine)
{
	limit(RLIMIT_CORE, 0);
	limit(RLIMIT_FSIZE, file_limit(confine->fsize_max));
	if (confine->nofile != 0)
		limit(RLIMIT_NOFILE, confine->nofile);
#ifndef CONFINE_SANITIZED
	if (confine->data_max != 0)
		limit(RLIMIT_DATA, confine->data_max);
#endif
}

/* Looks at what the kernel says, not at what was asked for. */
static void
verify_ids(const struct confine_ids *ids)
{
	uid_t r, e, s;
	gid_t gr, ge, gs, group;
	int want = ids->extra_gid != (gid_t)-1, n;

	if (getresuid(&r, &e, &s) == -1 || r != ids->uid || e != ids->uid || s != ids->uid)
		fatalx("confinement: user id was not set");
	if (getresgid(&gr, &ge, &gs) == -1 || gr != ids->gid || ge != ids->gid || gs != ids->gid)
		fatalx("confinement: group id was not set");
	n = getgroups(0, NULL);
	if (n != want || (want && (getgroups(1, &group) != 1 || group != ids->extra_gid)))
		fatalx("confinement: groups were not set");
}

static void
change_ids(const struct confine_ids *ids)
{
	if (ids->uid == 0 || ids->gid == 0)
		fatalx("confinement: will not run as root");
	if (setgroups(ids->extra_gid != (gid_t)-1 ? 1 : 0, &ids->extra_gid) == -1)
		fatal("confinement: setgroups");
	if (setresgid(ids->gid, ids->gid, ids->gid) == -1)
		fatal("confinement: setresgid");
	if (setresuid(ids->uid, ids->uid, ids->uid) == -1)
		fatal("confinement: setresuid");
	verify_ids(ids);
}

static void
drop_privileges(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};

	if (syscall(SYS_capset, &header, none) == -1)
		fatal("confinement: capset");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == -1)
		fatal("confinement: no_new_privs");
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == -1)
		fatal("confinement: dumpable");
	if (setuid(0) == 0 || setgid(0) == 0)
		fatalx("confinement: privileges came back");
}

static int
load_filter(const struct confine_filter *filter, const struct confine_ids *ids)
{
	if (confine_filter_load(filter) == -1)
		return confine_weaker(ids, "a system call filter (seccomp)");
	return 0;
}

int
confine_enter(const struct confine *confine, const struct confine_ids *ids)
{
	static struct confine_filter filter;
	int partial = 0;

	if (!ids->as_root && geteuid() == 0)
		fatalx("confinement: will not run as root");
#ifdef CONFINE_SANITIZED
	confined = 1;
#endif
	set_limits(confine);
	partial |= confine_root_enter(confine, ids);
	if (ids->as_root)
		change_ids(ids);
	else
		partial = 1; /* one user for all programs, and the groups of whoever started them */
	drop_privileges();
	partial |= confine_landlock_enter(confine, ids);
	confine_filter_promises(&filter, confine->promises);
	partial |= load_filter(&filter, ids);
	return partial;
}

/* A filter that an earlier exec of the same program left; another on top would only make every call
 * slower. */
static int
parent_is_confined(void)
{
	return prctl(CONFINE_MARK, 0, 0, 0, 0) == -1 && errno == EALREADY;
}

int
confine_parent(int as_root, int allow_weaker)
{
	static struct confine_filter filter;
	const struct confine_ids ids = {.as_root = as_root, .allow_weaker = allow_weaker};

	limit(RLIMIT_CORE, 0);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == -1)
		fatal("confinement: no_new_privs");
	if (parent_is_confined())
		return 0;
	confine_filter_begin(&filter, SECCOMP_RET_ALLOW);
	if (as_root)
		confine_filter_add(&filter, &confine_group_parent_root);
	confine_filter_add(&filter, &confine_group_parent);
	confine_filter_end(&filter);
	return load_filter(&filter, &ids);
}

/* Tried in a child, since it cannot be undone. */
static int
probe_user_namespace(void)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 ? 0 : 1);
	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
	       WEXITSTATUS(status) == 0;
}

void
confine_probe(struct confine_kernel *kernel)
{
	uint32_t action = SECCOMP_RET_KILL_PROCESS;

	kernel->landlock_abi = confine_landlock_abi();
	kernel->seccomp = syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
	kernel->user_namespaces = probe_user_namespace();
}
