/* What the parent looks for in the file system: its programs, the users, the data directory, the
 * engine's socket. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <bsd/string.h>

#include "agent-sandboxd/parent.h"
#include "common/log.h"

const char *const program_names[PROGRAM_KINDS] = {
    "apid", "managerd", "dockerd-proxy", "egressd", "keyd", "sessiond"};
static const char *const users[PROGRAM_KINDS] = {
    "_as-api", "_as-manager", "_as-docker", "_as-egress", "_as-key", "_as-session"};

static int
has_program(const char *dir, const char *name)
{
	char path[PARENT_PATH_MAX + PARENT_NAME_MAX];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return access(path, X_OK) == 0;
}

/* The programs beside this one, as in a build; else the installed ones. */
void
paths_programs(struct parent *p)
{
	if (readlink("/proc/self/exe", p->self, sizeof(p->self) - 1) == -1)
		fatal("/proc/self/exe");
	strlcpy(p->dir, p->self, sizeof(p->dir));
	*strrchr(p->dir, '/') = '\0';
	if (!has_program(p->dir, program_names[PROG_APID]))
		strlcpy(p->dir, LIBEXECDIR, sizeof(p->dir));
	for (int i = 0; i < PROGRAM_KINDS; i++)
		if (!has_program(p->dir, program_names[i]))
			fatal_config("%s/%s: %s", p->dir, program_names[i], strerror(errno));
}

void
paths_users(struct parent *p)
{
	const struct passwd *pw;

	p->as_root = geteuid() == 0;
	for (int i = 0; i < PROGRAM_KINDS; i++) {
		p->uid[i] = getuid();
		p->gid[i] = getgid();
		if (!p->as_root)
			continue;
		if ((pw = getpwnam(users[i])) == NULL)
			fatal_config("the user %s does not exist; create-users.sh makes the "
				     "six that are needed",
			    users[i]);
		if (pw->pw_uid == 0 || pw->pw_gid == 0)
			fatal_config("the user %s must not be root, nor in its group", users[i]);
		p->uid[i] = pw->pw_uid;
		p->gid[i] = pw->pw_gid;
		for (int j = 0; j < i; j++)
			if (p->uid[j] == p->uid[i])
				fatal_config(
				    "the users %s and %s are the same", users[j], users[i]);
	}
}

static int
is_empty(int fd)
{
	const struct dirent *de;
	int n = 0, copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = copy == -1 ? NULL : fdopendir(copy);

	if (dir == NULL)
		fatal("data directory");
	while ((de = readdir(dir)) != NULL)
		n += strcmp(de->d_name, ".") != 0 && strcmp(de->d_name, "..") != 0;
	closedir(dir);
	return n == 0;
}

/* Made if missing; taken over if empty; one with somebody's files in it is left alone. */
void
paths_data_dir(struct parent *p)
{
	const char *want = p->set.c.str[CFG_DATA_DIR];
	char real[PATH_MAX];
	struct stat st;
	uid_t uid = p->uid[PROG_MANAGERD], owner = p->as_root ? 0 : uid;
	gid_t gid = p->gid[PROG_MANAGERD];
	mode_t mode = p->as_root ? 01770 : 0700; /* managerd cannot touch what is not its own */
	int fd;

	if (mkdir(want, 0700) == -1 && errno != EEXIST)
		fatal_config("AGENT_SANDBOX_DATA_DIR: cannot make %s: %s", want, strerror(errno));
	if (realpath(want, real) == NULL ||
	    (fd = open(real, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) == -1 ||
	    fstat(fd, &st) == -1)
		fatal_config("AGENT_SANDBOX_DATA_DIR: %s: %s", want, strerror(errno));
	if (strlcpy(p->data_dir, real, sizeof(p->data_dir)) >= sizeof(p->data_dir))
		fatal_config("AGENT_SANDBOX_DATA_DIR: the path is too long");
	if (st.st_uid != uid && (st.st_uid != owner || st.st_gid != gid) && !is_empty(fd))
		fatal_config("AGENT_SANDBOX_DATA_DIR: %s belongs to user %u, not to %u, and is "
			     "not empty",
		    real, st.st_uid, uid);
	if ((st.st_uid != owner || st.st_gid != gid) && fchown(fd, owner, gid) == -1)
		fatal_config(
		    "AGENT_SANDBOX_DATA_DIR: cannot take over %s: %s", real, strerror(errno));
	if ((st.st_mode & 07777) != mode && fchmod(fd, mode) == -1)
		fatal_config("AGENT_SANDBOX_DATA_DIR: %s: %s", real, strerror(errno));
	close(fd);
}

void
paths_engine(const struct parent *p, struct engine_id *id)
{
	struct stat st;

	memset(id, 0, sizeof(*id));
	if (stat(p->set.engine, &st) == -1 || !S_ISSOCK(st.st_mode))
		return;
	id->exists = 1;
	id->dev = st.st_dev;
	id->ino = st.st_ino;
	id->gid = st.st_gid;
	id->mode = st.st_mode;
	id->changed = st.st_ctim;
}

int
paths_engine_differs(const struct engine_id *a, const struct engine_id *b)
{
	return a->exists != b->exists || a->dev != b->dev || a->ino != b->ino || a->gid != b->gid ||
	       a->mode != b->mode || a->changed.tv_sec != b->changed.tv_sec ||
	       a->changed.tv_nsec != b->changed.tv_nsec;
}

int
paths_engine_moved(const struct parent *p)
{
	struct engine_id now;

	paths_engine(p, &now);
	return p->engine.exists && paths_engine_differs(&now, &p->engine);
}
